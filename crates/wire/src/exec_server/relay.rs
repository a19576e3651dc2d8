//! Relay frames: the messages between harness and executor through a rendezvous, one per WebSocket message.
//!
//! [`RelayFrame`] is a validated frame; [`route`] and [`stream_id_of`] are for routers, which forward frames unchanged.
//! The schema is `relay.proto`.

#[rustfmt::skip]
mod generated;
mod route;

use bytes::Bytes;
use prost::Message as _;

use generated::relay_message_frame::Body as ProtoBody;
use generated::{RelayAck, RelayData, RelayHeartbeat, RelayMessageFrame, RelayReset, RelayResume};

pub use route::{Kind, Route, route, stream_id_of};

/// The version of the relay protocol.
pub const VERSION: u32 = 1;
/// Bytes of the longest stream id; a UUID has 36.
pub const MAX_STREAM_ID_BYTES: usize = 256;

/// The close code for an executor's WebSocket when another executor with its id has connected.
pub const REPLACED: u16 = 4409;

/// One validated frame of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayFrame {
    /// The stream that it belongs to.
    pub stream_id: String,
    /// The highest seq up to which the sender has everything of its peer. 0 may also mean "nothing yet".
    pub ack: u32,
    /// Bit i: the sender has seq `ack + 1 + i` as well.
    pub ack_bits: u32,
    /// The content of the frame.
    pub body: Body,
}

/// The kinds and contents of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A message or a segment of one.
    Data(Data),
    /// Only `ack` and `ack_bits`.
    Ack,
    /// The position at which the sender continues.
    Resume {
        /// The seq of the sender's next segment.
        next_seq: u32,
    },
    /// The end of the stream.
    Reset {
        /// The reason for the user.
        reason: String,
    },
    /// A keepalive without content.
    Heartbeat,
}

/// A message or a segment of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// The number of the segment, from 0.
    pub seq: u32,
    /// The index of the segment in its message.
    pub segment_index: u32,
    /// The number of segments of its message.
    pub segment_count: u32,
    /// A JSON-RPC message or a segment of it.
    pub payload: Bytes,
}

/// Why bytes are not a valid relay frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// They are not a protobuf message of this schema.
    #[error("not a relay frame: {0}")]
    Undecodable(String),
    /// Another version of the protocol.
    #[error("unsupported relay frame version {0} (expected {VERSION})")]
    Version(u32),
    /// The stream id is missing or blank.
    #[error("the relay frame has no stream id")]
    NoStream,
    /// The stream id is above the limit.
    #[error("stream id too long: {0} bytes (limit {MAX_STREAM_ID_BYTES})")]
    LongStream(usize),
    /// The body is missing or of an unknown kind.
    #[error("the relay frame has no known body")]
    NoBody,
    /// A reset has no reason.
    #[error("the reset frame has no reason")]
    NoReason,
}

impl RelayFrame {
    /// Creates a frame without acknowledgements.
    pub fn new(stream_id: impl Into<String>, body: Body) -> RelayFrame {
        RelayFrame { stream_id: stream_id.into(), ack: 0, ack_bits: 0, body }
    }

    /// Decodes and validates a frame; its payload is not copied.
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

    /// Encodes the frame as bytes.
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
