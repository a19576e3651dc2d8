//! The MCP request handler, one per client.

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

/// The newest version with sessions and server requests. A client of a later version is answered with this one, which
/// it supports too.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The server instructions for models.
const INSTRUCTIONS: &str = "These tools run commands and access files on the target machine, which may not be the machine you run on: \
use them instead of your own tools for everything that concerns the project. Relative paths start in the working directory \
on the target. A command that runs for a long time continues in the background; read its output with bash_output. The user chooses \
the target (`rex target use`), and it may change between two calls.";

/// The server of one client.
#[derive(Debug)]
pub struct McpServer {
    options: ToolboxOptions,
    stop: CancellationToken,
    toolbox: Arc<OnceLock<Arc<Toolbox>>>,
}

impl McpServer {
    /// A server whose calls end when `stop` is cancelled.
    pub fn new(options: ToolboxOptions, stop: CancellationToken) -> McpServer {
        McpServer { options, stop, toolbox: Arc::default() }
    }

    /// The slot of its toolbox, filled when the client has sent its capabilities.
    pub fn toolbox_slot(&self) -> Arc<OnceLock<Arc<Toolbox>>> {
        self.toolbox.clone()
    }

    fn toolbox(&self, supports_forms: bool) -> &Arc<Toolbox> {
        self.toolbox.get_or_init(|| {
            let options = ToolboxOptions { approvals: supports_forms, ..self.options.clone() };
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
        let supports_forms = request
            .capabilities
            .elicitation
            .as_ref()
            .is_some_and(|can| can.form.is_some() || can.url.is_none());
        let toolbox = self.toolbox(supports_forms).clone();
        // The session is open when the first call needs it.
        toolbox.warm_up();
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
            let message = format!("{} is not a file on the target; use file:///PATH", request.uri);
            return Err(ErrorData::resource_not_found(message, None));
        };
        let read = self.toolbox(false).read_file(&path).await;
        let bytes = read.map_err(|failure| ErrorData::resource_not_found(failure.message, None))?;
        Ok(ReadResourceResult::new(vec![convert::contents(&request.uri, bytes)]).into())
    }
}
