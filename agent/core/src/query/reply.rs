//! What is answered: an object of JSON. A list of hundreds of devices stands in it as text
//! already: as a tree of values it would take some times as much, megabytes for a moment.

use std::fmt::{self, Write as _};

use serde_json::Value;

/// A list of JSON, written while it is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// Its members with a comma between two.
    members: String,
}

impl Written {
    /// Takes the next member.
    pub fn push(&mut self, member: &Value) {
        if !self.members.is_empty() {
            self.members.push(',');
        }
        // A String takes everything.
        let _ = write!(self.members, "{member}");
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.members)
    }
}

/// See the module. Shown, it is JSON.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    object: Value,
    /// Members of the object that stand here, where it has null.
    lists: Vec<(&'static str, Written)>,
}

impl From<Value> for Reply {
    fn from(object: Value) -> Self {
        let lists = Vec::new();
        Self { object, lists }
    }
}

impl Reply {
    /// All but the lists.
    #[must_use]
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// The same, to be changed.
    pub fn object_mut(&mut self) -> &mut Value {
        &mut self.object
    }

    /// With this list as a member, in the place that the object has for it or behind the
    /// others.
    #[must_use]
    pub fn with(mut self, name: &'static str, list: Written) -> Self {
        self.object[name] = Value::Null;
        self.lists.retain(|(known, _)| *known != name);
        self.lists.push((name, list));
        self
    }

    /// As a tree, with all that this takes.
    ///
    /// # Panics
    /// Never: what was written as JSON reads as JSON.
    #[must_use]
    pub fn into_value(self) -> Value {
        let mut object = self.object;
        for (name, list) in self.lists {
            object[name] = serde_json::from_str(&list.to_string()).expect("we wrote it");
        }
        object
    }

    /// As text, in one piece that is as long as it has to be.
    #[must_use]
    pub fn into_text(self) -> String {
        let lists = self.lists.iter().map(|(_, list)| list.members.len());
        let mut text = String::with_capacity(lists.sum::<usize>() + REST_BYTES);
        // A String takes everything.
        let _ = write!(text, "{self}");
        text
    }
}

/// About what stands beside the lists, bytes: a guess only.
const REST_BYTES: usize = 16 * 1024;

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Value::Object(members) = &self.object else {
            return write!(f, "{}", self.object);
        };
        f.write_char('{')?;
        for (at, (name, value)) in members.iter().enumerate() {
            if at > 0 {
                f.write_char(',')?;
            }
            write!(f, "{}:", Value::from(name.as_str()))?;
            match self.lists.iter().find(|(list, _)| list == name) {
                Some((_, list)) => write!(f, "{list}")?,
                None => write!(f, "{value}")?,
            }
        }
        f.write_char('}')
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_what_the_tree_would_say() {
        let members = [json!({"a\"": [1, null, "x\ny"]}), json!(2.5), json!([])];
        for count in 0..=members.len() {
            let mut list = Written::default();
            members[..count].iter().for_each(|member| list.push(member));
            let want = json!({ "é\n": 1, "list": members[..count], "last": {} });
            let reply = Reply::from(json!({ "é\n": 1, "list": null, "last": {} }));
            let reply = reply.with("list", list);
            assert_eq!(reply.to_string(), want.to_string());
            assert_eq!(reply.clone().into_text(), want.to_string());
            assert_eq!(reply.into_value(), want);
        }
    }

    #[test]
    fn a_list_takes_the_place_of_another_or_comes_last() {
        let list = |member: i32| {
            let mut list = Written::default();
            list.push(&json!(member));
            list
        };
        let reply = Reply::from(json!({ "a": 1 })).with("b", list(1));
        let reply = reply.with("a", list(2)).with("b", list(3));
        assert_eq!(reply.to_string(), r#"{"a":[2],"b":[3]}"#);
        let mut reply = reply;
        reply.object_mut()["c"] = json!("d");
        assert_eq!(reply.into_value(), json!({ "a": [2], "b": [3], "c": "d" }));
    }

    #[test]
    fn what_has_no_list_is_said_as_it_is() {
        for value in [
            json!(null),
            json!([1]),
            json!({}),
            json!({ "a": { "b": "c" } }),
        ] {
            let reply = Reply::from(value.clone());
            assert_eq!(reply.to_string(), value.to_string());
            assert_eq!(reply.into_value(), value);
        }
    }
}
