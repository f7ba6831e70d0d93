//! The messages of Sparkplug B in protobuf: the fields that we write or read, by the
//! numbers of the specification's schema. Unknown fields are passed over.

/// Codes of data types.
pub(super) const INT32: u32 = 3;
pub(super) const INT64: u32 = 4;
pub(super) const DOUBLE: u32 = 10;
pub(super) const BOOLEAN: u32 = 11;
pub(super) const STRING: u32 = 12;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Payload {
    /// ms since 1970.
    #[prost(uint64, optional, tag = "1")]
    pub(super) timestamp: Option<u64>,
    #[prost(message, repeated, tag = "2")]
    pub(super) metrics: Vec<Metric>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) seq: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Metric {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) alias: Option<u64>,
    /// ms since 1970.
    #[prost(uint64, optional, tag = "3")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) datatype: Option<u32>,
    #[prost(bool, optional, tag = "5")]
    pub(super) is_historical: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    pub(super) is_null: Option<bool>,
    #[prost(message, optional, tag = "9")]
    pub(super) properties: Option<PropertySet>,
    #[prost(oneof = "Value", tags = "11, 13, 14")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(uint64, tag = "11")]
    Long(u64),
    #[prost(double, tag = "13")]
    Double(f64),
    #[prost(bool, tag = "14")]
    Boolean(bool),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PropertySet {
    #[prost(string, repeated, tag = "1")]
    pub(super) keys: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    pub(super) values: Vec<PropertyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PropertyValue {
    #[prost(uint32, optional, tag = "1")]
    pub(super) datatype: Option<u32>,
    #[prost(oneof = "PropertyKind", tags = "3, 7, 8")]
    pub(super) value: Option<PropertyKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum PropertyKind {
    #[prost(uint32, tag = "3")]
    Int(u32),
    #[prost(bool, tag = "7")]
    Boolean(bool),
    #[prost(string, tag = "8")]
    Text(String),
}
