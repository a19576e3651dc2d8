//! The HTTP front end: who may ask, the body of a request, and the answer of each route.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::audit::RecordPriority;
use http::request::Parts;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use link::listen::{
    ConnectionLimiter, ConnectionPhase, HttpConnection, HttpServer, HttpService, OriginCheck, PhaseDeadlines,
    WhenFull,
};
use wire::stringd::v0_1::{
    CreateSession, Health, MAX_BODY_BYTES, RegisterUser, SessionCreated, SessionDeleted, SessionDocument,
    SessionItem, Sessions, Shutdown, USER_HEADER, UserDeleted, UserRegistered, Users,
};

use super::Stringd;
use super::convert::{TopicName, header_text, text, texts, topic};
use super::errors::RequestError;
use super::exec;
use super::response::{ResponseBody, StringdResponse, empty, failure, json};
use super::routes::{Route, RouteError, route};
use super::topics::Topic;
use super::users::{Registered, Registration, create_home};
use crate::core::request::{ConnectionContext, Details, Requester};
use crate::core::responder::Responder;
use crate::core::session::Face as _;
use crate::core::table::detail;
use crate::net::auth::Caller;
use crate::observe::metrics::{RefusalReason, Transport};
use crate::observe::traces::TraceParent;

/// How long the face continues after the answer to `/shutdown`.
const SHUTDOWN_DELAY: Duration = Duration::from_millis(50);
/// An idle connection is closed after this time; a pooled client must not meet a closed one earlier.
const IDLE: Duration = Duration::from_secs(24 * 3_600);

/// Bytes of an unused body that are read; the connection of a longer one is closed.
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;
/// How long an unused body is read; then the connection is closed.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long each piece of it is waited for.
const PIECE_TIMEOUT: Duration = Duration::from_secs(2);

/// A server for the face with at most `max_connections` connections. Its tasks belong to the core.
pub fn server(face: Arc<Stringd>, max_connections: usize) -> Arc<HttpServer<StringdFrontEnd>> {
    let (stop, tasks) = (face.stop.clone(), face.core.tasks.clone());
    Arc::new(HttpServer {
        service: Arc::new(StringdFrontEnd { face, origin: OriginCheck::loopback_pages() }),
        limiter: ConnectionLimiter::new(max_connections),
        when_full: WhenFull::Reject,
        deadlines: PhaseDeadlines { idle: IDLE, ..PhaseDeadlines::default() },
        tls: None,
        stop,
        tasks,
    })
}

/// The routes of the listener.
#[derive(Debug)]
pub struct StringdFrontEnd {
    face: Arc<Stringd>,
    origin: OriginCheck,
}

/// Written to a connection over the limit: the usual refusal with the CORS headers.
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n\
    Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Headers: Content-Type, X-User-Id\r\n\
    Connection: close\r\n\r\n";

impl HttpService for StringdFrontEnd {
    type ResponseBody = ResponseBody;

    fn unavailable(&self) -> &'static [u8] {
        UNAVAILABLE
    }

    async fn respond(
        self: Arc<Self>,
        connection: Arc<HttpConnection>,
        request: Request<Incoming>,
    ) -> StringdResponse {
        let authority = request.uri().authority().map(|authority| authority.as_str());
        if let Err(error) = self.origin.check(request.headers(), authority, connection.peer.address) {
            self.face.core.metrics.refused(RefusalReason::Origin);
            return failure(RequestError::new(error.status(), error.to_string()));
        }
        connection.slot.authenticate();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        self.face.log("request", &[("method", method.as_str()), ("path", &path)]);
        let route = route(&method, &path, request.uri().query());
        if route == Ok(Route::Preflight) {
            return empty(StatusCode::NO_CONTENT);
        }
        let (head, mut body) = request.into_parts();
        let mut record = Some(self.record(&route, &head));
        let answered = match (route, self.face.core.audit.refusal(RecordPriority::Normal)) {
            (Ok(Route::Health), _) => {
                // It changes nothing and comes often.
                record.iter_mut().for_each(Responder::skip_audit);
                Ok(health(&self.face))
            }
            (_, Some(problem)) => {
                record.iter_mut().for_each(Responder::skip_audit);
                Err(RequestError::new(StatusCode::SERVICE_UNAVAILABLE, problem))
            }
            (Ok(route), None) => {
                let exchange = StringdExchange { connection: &connection, head: &head, body: &mut body };
                self.answer(route, exchange, &mut record).await
            }
            (Err(error), None) => Err(unrouted(&error, &method, &path)),
        };
        let (outcome, response) = match answered {
            Ok(response) => (Ok(()), response),
            Err(refused) => (Err(refused.record()), failure(refused)),
        };
        if let Some(record) = record {
            record.send(outcome).await;
        }
        // A client that waits for permission to send its body sends none.
        if !head.headers.contains_key(header::EXPECT) {
            discard(body).await;
        }
        if method == Method::HEAD { empty(response.status()) } else { response }
    }
}

impl StringdFrontEnd {
    /// The record of a request for the audit, metrics and traces.
    fn record(&self, route: &Result<Route, RouteError>, head: &Parts) -> Responder {
        let mut context = ConnectionContext::new(Caller::on_loopback(), Transport::Http);
        let parent = head.headers.get("traceparent").and_then(|value| value.to_str().ok());
        context.parent = parent.and_then(TraceParent::parse);
        let label = route.as_ref().ok().and_then(Route::name);
        let unknown = || format!("{} {}", head.method, head.uri.path());
        let method = (label, label.map_or_else(unknown, str::to_owned));
        let requester = Requester::new(Stringd::NAME, context.caller.clone());
        Responder::recording(&self.face.core, &context, requester, method)
    }

    async fn answer(
        &self,
        route: Route,
        exchange: StringdExchange<'_>,
        record: &mut Option<Responder>,
    ) -> Result<StringdResponse, RequestError> {
        let face = &self.face;
        let ok = StatusCode::OK;
        let mut note = |details: Details| {
            if let Some(record) = record.as_mut() {
                record.set_details(details);
            }
        };
        Ok(match route {
            Route::Preflight => empty(StatusCode::NO_CONTENT),
            Route::ListUsers => json(ok, &Users { users: face.users.list() }),
            Route::RegisterUser => {
                let body = exchange.body().await?;
                let new = registration(serde_json::from_slice(&body).unwrap_or_default())?;
                note([detail("user", &new.id), detail("home", &new.home)].concat());
                register_user(face, new).await?
            }
            Route::DeleteUser(id) => {
                note(detail("user", &id));
                delete_user(face, id).await
            }
            Route::ListSessions { user } => {
                let sessions = face.topics.list(user.as_deref()).iter().map(|topic| item(topic)).collect();
                json(ok, &Sessions { sessions })
            }
            Route::CreateSession => {
                let body = exchange.body().await?;
                let (user, topic) = session(face, &serde_json::from_slice(&body).unwrap_or_default())?;
                note([detail("user", &user), detail("topic", topic.as_str())].concat());
                create_session(face, user, &topic)?
            }
            Route::DeleteSession { user, topic } => {
                note([detail("user", &user), detail("topic", &topic)].concat());
                let deleted = face.topics.remove(&user, &topic).is_some();
                face.log("session.delete", &[("user", &user), ("topic", &topic)]);
                json(ok, &SessionDeleted { user_id: user, topic, deleted })
            }
            Route::Exec => {
                let user = exchange.head.headers.get(USER_HEADER).map(|value| header_text(value.as_bytes()));
                let user = user.unwrap_or_default().trim().to_owned();
                // The user is checked before the body is read, and again with the topic.
                exec::check_user(face, &user)?;
                let body = exchange.body().await?;
                exec::exec(face, &user, &body, record).await?
            }
            Route::Health => health(face),
            Route::Shutdown => {
                shut_down_later(face);
                json(ok, &Shutdown { ok: true, message: "stringd shutting down".to_owned() })
            }
        })
    }
}

fn health(face: &Stringd) -> StringdResponse {
    json(StatusCode::OK, &Health { ok: true, users: face.users.len(), sessions: face.topics.len() })
}

fn unrouted(error: &RouteError, method: &Method, path: &str) -> RequestError {
    match error {
        RouteError::NotFound => {
            RequestError::new(StatusCode::NOT_FOUND, format!("Not found: {method} {path}"))
        }
        RouteError::BadEscape => RequestError::bad("Malformed percent escape"),
        RouteError::NoTopic => RequestError::bad("Expected /sessions/:user_id/:topic"),
    }
}

fn shut_down_later(face: &Arc<Stringd>) {
    let stop = face.stop.clone();
    face.core.tasks.spawn(async move {
        tokio::time::sleep(SHUTDOWN_DELAY).await;
        stop.cancel();
    });
}

/// One request whose body may still have to be read.
struct StringdExchange<'a> {
    connection: &'a HttpConnection,
    head: &'a Parts,
    body: &'a mut Incoming,
}

impl StringdExchange<'_> {
    /// The whole body, or the refusal of one that is too long or incomplete.
    async fn body(self) -> Result<Bytes, RequestError> {
        let too_long = || {
            let reason = format!("Request body exceeds {MAX_BODY_BYTES} bytes");
            RequestError { closes: true, ..RequestError::new(StatusCode::PAYLOAD_TOO_LARGE, reason) }
        };
        let is_announced = self.body.size_hint().lower() > MAX_BODY_BYTES as u64;
        if is_announced && self.head.headers.contains_key(header::EXPECT) {
            return Err(too_long());
        }
        self.connection.enter(ConnectionPhase::Body);
        let read = Limited::new(self.body, MAX_BODY_BYTES).collect().await;
        self.connection.enter(ConnectionPhase::Busy);
        read.map(|body| body.to_bytes()).map_err(|error| match error.is::<LengthLimitError>() {
            true => too_long(),
            false => {
                let refused = RequestError::bad(format!("cannot read the body: {error}"));
                RequestError { closes: true, ..refused }
            }
        })
    }
}

/// Reads what is left of a body, within limits. With unread bytes the connection could not be kept, and a client that
/// still sends could not read the answer, because a reset discards it.
async fn discard(mut body: Incoming) {
    let read = async {
        let mut left = MAX_DISCARDED_BYTES;
        // A client that stopped sending reads the answer all the same.
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(PIECE_TIMEOUT, body.frame()).await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    tokio::time::timeout(DISCARD_TIMEOUT, read).await.ok();
}

/// The user that a request registers.
fn registration(request: RegisterUser) -> Result<Registration, RequestError> {
    let id = text(&request.id).or_else(|| text(&request.user_id)).map(str::to_owned);
    let id = id.ok_or_else(|| RequestError::bad("id required"))?;
    let home = text(&request.home).map(str::to_owned);
    let home = home.ok_or_else(|| RequestError::bad("home required"))?;
    if !Path::new(&home).is_absolute() || home.contains('\0') {
        return Err(RequestError::bad("home must be an absolute path"));
    }
    Ok(Registration { id, home, allowed_paths: texts(&request.allowed_paths) })
}

async fn register_user(face: &Arc<Stringd>, new: Registration) -> Result<StringdResponse, RequestError> {
    let (id, home) = (new.id.clone(), new.home.clone());
    let owner = face.clone();
    let registered = tokio::task::spawn_blocking(move || {
        let is_inside = owner.roots.admit(Path::new("/"), Path::new(&new.home)).is_ok();
        if is_inside {
            create_home(Path::new(&new.home));
        }
        owner.users.register(&new)
    });
    let failed = |_| RequestError::new(StatusCode::INTERNAL_SERVER_ERROR, "the users cannot be changed");
    let registered = registered.await.map_err(failed)?;
    if registered == Registered::Moved {
        face.topics.remove_stale(&face.users, &id);
    }
    let created = registered == Registered::Created;
    let event = if created { "user.register" } else { "user.update" };
    face.log(event, &[("user", &id), ("home", &home)]);
    Ok(json(StatusCode::OK, &UserRegistered { user_id: id, home, created }))
}

async fn delete_user(face: &Arc<Stringd>, id: String) -> StringdResponse {
    let (owner, name) = (face.clone(), id.clone());
    let deleted = tokio::task::spawn_blocking(move || owner.users.remove(&name)).await.unwrap_or(false);
    if deleted {
        face.topics.remove_stale(&face.users, &id);
    }
    face.log("user.delete", &[("user", &id)]);
    json(StatusCode::OK, &UserDeleted { user_id: id, deleted })
}

/// The user and the topic of a session to create.
fn session(face: &Stringd, request: &CreateSession) -> Result<(String, TopicName), RequestError> {
    let id = text(&request.user_id).ok_or_else(|| RequestError::bad("user_id required"))?;
    exec::check_user(face, id)?;
    let topic = topic(&request.topic).map_err(|raw| RequestError::bad(format!("Invalid topic: {raw}")))?;
    Ok((id.to_owned(), topic))
}

fn create_session(face: &Stringd, user: String, topic: &TopicName) -> Result<StringdResponse, RequestError> {
    let opened = face.topics.ensure(&face.users, &user, topic);
    let (_, created) = opened.ok_or_else(|| exec::unknown_user(&user))?;
    face.log("session.create", &[("user", &user), ("topic", topic.as_str())]);
    let answer = SessionCreated {
        user_id: user,
        topic: topic.as_str().to_owned(),
        topic_type: topic.kind().name().to_owned(),
        created,
    };
    Ok(json(StatusCode::OK, &answer))
}

fn item(topic: &Topic) -> SessionItem {
    let (executing, queue_length, meta) = topic.status();
    let doc = meta.as_ref().map(|meta| SessionDocument {
        uri: meta.uri.clone(),
        title: meta.title.clone(),
        current_block: meta.current_block.clone(),
    });
    let uri = meta.as_ref().map(|meta| meta.uri.clone());
    let meta = meta.unwrap_or_default();
    SessionItem {
        user_id: topic.user.id.clone(),
        topic: topic.name.as_str().to_owned(),
        topic_type: topic.name.kind().name().to_owned(),
        executing,
        queue_length,
        doc,
        created: topic.created.clone(),
        uri,
        title: meta.title,
        menus: meta.menus,
        actions: meta.actions,
        history_length: meta.history_length,
        block_id: meta.block_id,
    }
}
