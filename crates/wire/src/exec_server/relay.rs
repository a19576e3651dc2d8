//! Relay frames: what harness and executor exchange through a rendezvous, one per WebSocket message.
//!
//! [`RelayFrame`] is a frame that was checked; [`route`] and [`stream_id_of`] are for whoever only passes frames on.
//! The schema is `relay.proto`.

#[rustfmt::skip]
mod generated;
mod route;

use bytes::Bytes;
use prost::Message as _;

use generated::relay_message_frame::Body as ProtoBody;
use generated::{RelayAck, RelayData, RelayHeartbeat, RelayMessageFrame, RelayReset, RelayResume};

pub use route::{Kind, Route, route, stream_id_of};

/// What both ends speak.
pub const VERSION: u32 = 1;
/// The longest stream id that is taken; a UUID has 36.
pub const MAX_STREAM_ID_BYTES: usize = 256;

/// The code with which a rendezvous of ours closes the WebSocket of an executor when another one with its id connected.
pub const REPLACED: u16 = 4409;

/// One frame of one stream, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayFrame {
    /// Which virtual connection it belongs to.
    pub stream_id: String,
    /// The highest seq up to which the sender has everything of its peer. 0 may also mean "nothing yet".
    pub ack: u32,
    /// Bit i: the sender has seq `ack + 1 + i` as well.
    pub ack_bits: u32,
    /// What it says.
    pub body: Body,
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A message, or a piece of one.
    Data(Data),
    /// Nothing but `ack` and `ack_bits`.
    Ack,
    /// Where the sender goes on.
    Resume {
        /// The seq of the next piece it will make.
        next_seq: u32,
    },
    /// The stream is over.
    Reset {
        /// Why, for people.
        reason: String,
    },
    /// A sign of life.
    Heartbeat,
}

/// A message, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Counts pieces from 0.
    pub seq: u32,
    /// Which piece of its message this is, from 0.
    pub segment_index: u32,
    /// How many pieces its message has.
    pub segment_count: u32,
    /// JSON-RPC, or a piece of it.
    pub payload: Bytes,
}

/// Why bytes are no relay frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// They are no protobuf message of this schema.
    #[error("not a relay frame: {0}")]
    Undecodable(String),
    /// Another version of the protocol.
    #[error("a relay frame of version {0}; this end speaks version {VERSION}")]
    Version(u32),
    /// There is no stream id, or a blank one.
    #[error("a relay frame names its stream")]
    NoStream,
    /// The stream id is too long to be kept.
    #[error("a stream id has at most {MAX_STREAM_ID_BYTES} bytes, not {0}")]
    LongStream(usize),
    /// There is no body, or one that this version has no word for.
    #[error("a relay frame has a body of version {VERSION}")]
    NoBody,
    /// A reset does not say why.
    #[error("a reset gives its reason")]
    NoReason,
}

impl RelayFrame {
    /// A frame that acknowledges nothing yet.
    pub fn new(stream_id: impl Into<String>, body: Body) -> RelayFrame {
        RelayFrame { stream_id: stream_id.into(), ack: 0, ack_bits: 0, body }
    }

    /// The frame in `bytes`; its payload is not copied.
    pub fn decode(bytes: Bytes) -> Result<RelayFrame, RelayError> {
        let frame =
            RelayMessageFrame::decode(bytes).map_err(|error| RelayError::Undecodable(error.to_string()))?;
        if frame.version != VERSION {
            return Err(RelayError::Version(frame.version));
        }
        check_stream(&frame.stream_id)?;
        let body = match frame.body.ok_or(RelayError::NoBody)? {
            ProtoBody::Data(RelayData { seq, segment_index, segment_count, payload }) => {
                Body::Data(Data { seq, segment_index, segment_count, payload })
            }
            ProtoBody::AckFrame(RelayAck {}) => Body::Ack,
            ProtoBody::Resume(RelayResume { next_seq }) => Body::Resume { next_seq },
            ProtoBody::Reset(RelayReset { reason }) => match reason.is_empty() {
                true => return Err(RelayError::NoReason),
                false => Body::Reset { reason },
            },
            ProtoBody::Heartbeat(RelayHeartbeat {}) => Body::Heartbeat,
        };
        Ok(RelayFrame { stream_id: frame.stream_id, ack: frame.ack, ack_bits: frame.ack_bits, body })
    }

    /// The frame as it travels.
    pub fn encode(self) -> Bytes {
        let body = match self.body {
            Body::Data(Data { seq, segment_index, segment_count, payload }) => {
                ProtoBody::Data(RelayData { seq, segment_index, segment_count, payload })
            }
            Body::Ack => ProtoBody::AckFrame(RelayAck {}),
            Body::Resume { next_seq } => ProtoBody::Resume(RelayResume { next_seq }),
            Body::Reset { reason } => ProtoBody::Reset(RelayReset { reason }),
            Body::Heartbeat => ProtoBody::Heartbeat(RelayHeartbeat {}),
        };
        let frame = RelayMessageFrame {
            version: VERSION,
            stream_id: self.stream_id,
            ack: self.ack,
            ack_bits: self.ack_bits,
            body: Some(body),
        };
        Bytes::from(frame.encode_to_vec())
    }
}

fn check_stream(stream_id: &str) -> Result<(), RelayError> {
    match stream_id.len() {
        _ if stream_id.trim().is_empty() => Err(RelayError::NoStream),
        long if long > MAX_STREAM_ID_BYTES => Err(RelayError::LongStream(long)),
        _ => Ok(()),
    }
}
