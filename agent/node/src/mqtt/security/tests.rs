//! Files that do and files that do not, and what is said of either.
