//! Every request of the protocol as one type, decoded once.

use link::rpc::Params;
use wire::rexd::v1::{self, Method as _, RpcError};

/// Declares the calls: those within a session, and those that need none.
macro_rules! calls {
    (in session: $($name:ident)*; alone: $($alone:ident)*;) => {
        /// One request, decoded.
        #[derive(Debug)]
        pub(super) enum Call {
            $(#[allow(missing_docs)] $name(v1::$name),)*
            $(#[allow(missing_docs, dead_code, reason = "decoded to be checked, even if it says nothing")] $alone(v1::$alone),)*
        }

        impl Call {
            /// Decodes the params of a method; an unknown method and a wrong member are said as such.
            pub(super) fn decode(method: &str, params: &Params) -> Result<Call, RpcError> {
                match method {
                    $(v1::$name::NAME => params.decode().map(Call::$name),)*
                    $(v1::$alone::NAME => params.decode().map(Call::$alone),)*
                    _ => Err(RpcError::method_not_found(method)),
                }
            }

            /// The name of its method.
            pub(super) fn method(&self) -> &'static str {
                match self {
                    $(Call::$name(_) => v1::$name::NAME,)*
                    $(Call::$alone(_) => v1::$alone::NAME,)*
                }
            }

            /// The session it belongs to, if its method needs one.
            pub(super) fn session_id(&self) -> Option<&str> {
                match self {
                    $(Call::$name(params) => Some(&params.session_id),)*
                    $(Call::$alone(_) => None,)*
                }
            }
        }
    };
}

calls! {
    in session:
        SessionClose SessionInfo SessionSetCwd
        ExecStart ExecWait ExecKill ExecInput ExecList ExecAttach
        PtyOpen PtyInput PtyResize PtyClose
        FsRead FsWrite FsList FsGlob FsStat FsEdit FsPatch FsGrep FsWatch FsUnwatch FsMkdir FsRemove FsRename FsCopy
        ApprovalList ApprovalAnswer;
    alone: SessionOpen SessionResume ServerPing;
}
