//! The embedded broker against plain sockets.

