//! The MCP request handler, one per client.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, DiscoverResult, GetTaskParams, GetTaskResult,
    Implementation, InitializeRequestParams, InitializeResult, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceTemplate,
    ServerCapabilities, ServerConfig, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::call::{self, RunningCall};
use super::caller::{CallerToken, McpCaller, McpCallers};
use super::{convert, stateless};
use crate::tools::{ToolCall, Toolbox, catalog, uri};

/// The newest version. Its requests have no session and no `initialize`.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2026_07_28;
/// The newest version with `initialize`: the answer to a client that requests an unknown one.
const NEWEST_WITH_INITIALIZE: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// How long the response to `initialize` or `server/discover` waits for the target, so that the instructions can describe it; below the time
/// that clients wait. If it takes longer, the first result describes the target.
const TARGET_WAIT: Duration = Duration::from_secs(1);

/// The server instructions for models.
const INSTRUCTIONS: &str = "These tools run commands and access files on the target machine, which may not be the machine you run on: \
use them instead of your own tools for everything that concerns the project. Relative paths start in the working directory \
on the target. A command that runs for a long time continues in the background; read its output with bash_output. The user chooses \
the target (`rex target use`), and it may change between two calls; the first result after a change says where you are.";

/// The server of one connection, of one HTTP session, or of one HTTP request without a session.
pub(super) struct McpServer {
    stop: CancellationToken,
    source: CallerSource,
}

/// Where the caller of a request is found.
enum CallerSource {
    /// A connection has one caller.
    Connection(Arc<McpCaller>),
    /// An HTTP session has one caller; without a session, the token names the caller.
    Http { callers: Arc<McpCallers>, session: OnceLock<Arc<McpCaller>> },
}

impl McpServer {
    /// A server for one caller, on a connection of its own. Its calls end when `stop` is cancelled.
    pub(super) fn on_connection(caller: Arc<McpCaller>, stop: CancellationToken) -> McpServer {
        McpServer { stop, source: CallerSource::Connection(caller) }
    }

    /// A server for a session or a request over HTTP.
    pub(super) fn over_http(callers: Arc<McpCallers>, stop: CancellationToken) -> McpServer {
        McpServer { stop, source: CallerSource::Http { callers, session: OnceLock::new() } }
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Arc<McpCaller>, ErrorData> {
        let (callers, session) = match &self.source {
            CallerSource::Connection(caller) => return Ok(caller.clone()),
            CallerSource::Http { callers, session } => (callers, session),
        };
        let token = CallerToken::of(context)
            .ok_or_else(|| ErrorData::internal_error("the request has no token", None))?;
        if stateless::is_stateless(context) {
            return Ok(callers.of_token(token));
        }
        let caller = session.get_or_init(|| Arc::new(callers.create(token)));
        match caller.is_of(token) {
            true => Ok(caller.clone()),
            false => Err(ErrorData::invalid_request("the session belongs to another token", None)),
        }
    }
}

/// Whether the client of a request shows forms to a person.
pub(super) fn supports_forms(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
    elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// The instructions, with a description of the target if it is reached in time.
async fn instructions(toolbox: &Arc<Toolbox>) -> String {
    match toolbox.open_and_describe(TARGET_WAIT).await {
        Some(target) => format!("{INSTRUCTIONS} Now it is: {target}."),
        None => INSTRUCTIONS.to_owned(),
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_tasks().build();
        let ours = Implementation::new("rex", env!("CARGO_PKG_VERSION")).with_title("rex");
        ServerConfig::new(capabilities)
            .with_server_info(ours)
            .with_instructions(INSTRUCTIONS)
            .with_protocol_version(NEWEST_WITH_INITIALIZE)
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
        let mut result = self.negotiate_initialize(&request)?;
        // Tasks are an extension of the version without `initialize`.
        result.capabilities.extensions = None;
        let caller = self.caller(&context)?;
        result.instructions = Some(instructions(caller.toolbox(supports_forms(&context))).await);
        Ok(result)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let mut result = DiscoverResult::from_server_info(versions, self.get_info());
        let caller = self.caller(&context)?;
        result.instructions = Some(instructions(caller.toolbox(supports_forms(&context))).await);
        Ok(result)
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
        let (caller, stop) = (self.caller(&context)?, self.stop.child_token());
        if stateless::is_stateless(&context) {
            return stateless::call(&caller, &request, &context, stop).await;
        }
        let toolbox = caller.toolbox(supports_forms(&context)).clone();
        let running = RunningCall::start(toolbox, &request, ToolCall::new(stop));
        Ok(convert::result(call::run(running, &context).await).into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.caller(&context)?.tasks.get(&request.task_id)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.caller(&context)?.tasks.update(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.caller(&context)?.tasks.cancel(&request.task_id)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        // A capability that is not declared does not exist; older clients have always received an empty list.
        match stateless::is_stateless(&context) {
            true => Err(ErrorData::method_not_found::<ListPromptsRequestMethod>()),
            false => Ok(ListPromptsResult::default()),
        }
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
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let not_found = |message| ErrorData::resource_not_found(message, Some(json!({ "uri": request.uri })));
        let Some(path) = uri::path(&request.uri) else {
            return Err(not_found(format!("{} is not a file on the target; use file:///PATH", request.uri)));
        };
        // A client without a session cannot be asked: a read that requires approval fails at once.
        let approvals = !stateless::is_stateless(&context) && supports_forms(&context);
        let caller = self.caller(&context)?;
        let read = caller.toolbox(approvals).read_file(&path).await;
        let bytes = read.map_err(|failure| not_found(failure.message))?;
        Ok(ReadResourceResult::new(vec![convert::contents(&request.uri, bytes)]).into())
    }
}
