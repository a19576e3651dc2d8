//! What the server says of itself, and what it does with each request. One for each client.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, InitializeRequestParams, InitializeResult,
    ListResourceTemplatesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceTemplate,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use tokio_util::sync::CancellationToken;

use super::{call, convert};
use crate::tools::{Toolbox, ToolboxOptions, catalog, uri};

/// The newest version whose clients have a session, and whose servers may ask: later ones have neither, so a client
/// of those is answered with this one, which all of them speak too.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// What models are told before they see a tool.
const INSTRUCTIONS: &str = "Commands and files on the machine where the work is done, which need not be the one you run on: \
use these tools, and not your own, for everything that concerns the project. Paths are relative to the working directory \
there. A command that takes long goes on in the background; bash_output reads on. Where the work is done is chosen by \
the person (`rex target use`) and may change between two calls.";

/// The server of one client.
#[derive(Debug)]
pub struct McpServer {
    options: ToolboxOptions,
    stop: CancellationToken,
    toolbox: Arc<OnceLock<Arc<Toolbox>>>,
}

impl McpServer {
    /// A server whose calls end when `stop` does.
    pub fn new(options: ToolboxOptions, stop: CancellationToken) -> McpServer {
        McpServer { options, stop, toolbox: Arc::default() }
    }

    /// Where its toolbox will be, once the client has said what it can do.
    pub fn toolbox_slot(&self) -> Arc<OnceLock<Arc<Toolbox>>> {
        self.toolbox.clone()
    }

    fn toolbox(&self, can_ask: bool) -> &Arc<Toolbox> {
        self.toolbox.get_or_init(|| {
            let options = ToolboxOptions { approvals: can_ask, ..self.options.clone() };
            Arc::new(Toolbox::new(options))
        })
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let ours = Implementation::new("rex", env!("CARGO_PKG_VERSION")).with_title("rex");
        ServerConfig::new(capabilities)
            .with_server_info(ours)
            .with_instructions(INSTRUCTIONS)
            .with_protocol_version(NEWEST)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&NEWEST))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let forms = request
            .capabilities
            .elicitation
            .as_ref()
            .is_some_and(|can| can.form.is_some() || can.url.is_none());
        let toolbox = self.toolbox(forms).clone();
        // The first call finds the session open.
        tokio::spawn(async move { toolbox.warm_up().await });
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(catalog::ALL.iter().map(convert::tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let toolbox = self.toolbox(false).clone();
        let outcome = call::run(&toolbox, &request, &context, self.stop.child_token()).await;
        Ok(convert::result(outcome).into())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let files =
            ResourceTemplate::new("file://{+path}", "file").with_description("A file, by its absolute path");
        Ok(ListResourceTemplatesResult::with_all_items(vec![files]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(path) = uri::path(&request.uri) else {
            let message = format!("{} is no file of the target; its files are file:///PATH", request.uri);
            return Err(ErrorData::resource_not_found(message, None));
        };
        let read = self.toolbox(false).read_file(&path).await;
        let bytes = read.map_err(|failure| ErrorData::resource_not_found(failure.message, None))?;
        Ok(ReadResourceResult::new(vec![convert::contents(&request.uri, bytes)]).into())
    }
}
