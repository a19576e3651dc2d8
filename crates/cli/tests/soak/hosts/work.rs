//! The work of a run with hosts: an app starts runs, types into them and has operations done; another approves or denies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::HostStage;
use super::app::App;
use super::system::HOST;
use crate::counters::{Outcome, Work};
use crate::random::Random;

/// A message without an answer is sent again after this time.
const AGAIN: Duration = Duration::from_millis(700);
/// The interval at which the output is searched for inputs.
const SEARCH: Duration = Duration::from_millis(200);
/// How long a run lasts, in milliseconds, and the time between two inputs or operations of it.
const LIFE: std::ops::Range<u64> = 2_000..20_000;
const PAUSE: std::ops::Range<u64> = 50..900;
/// Inputs and operations of one run that have not taken effect yet.
const OUTSTANDING: usize = 3;
/// Errors of the hub and the host after which the same request may be sent again: nothing was done, or it is done once however
/// often it is sent. A host is unknown until it connects for the first time.
const REPEATABLE: [&str; 6] = [
    "host offline",
    "host offline: the outcome is not known; repeat the request with the same request_id",
    "host busy",
    "unknown host_id",
    "unknown run_id",
    "the hub cannot access its database",
];

/// Prints numbered lines, sometimes many at once, and each input as a line, until the input `end`.
const PROGRAM: &str = r#"
stty -echo -opost
n=0
typed=
while :; do
    if IFS= read -r -t 0.03 part; then
        typed=$typed$part
        printf 'input %s\n' "$typed"
        [ "$typed" = end ] && break
        typed=
    else
        typed=$typed$part
        printf 'line %d\n' $n
        n=$((n + 1))
        if [ $((n % 40)) = 0 ]; then
            seq -f 'line %.0f' $n $((n + 299))
            n=$((n + 300))
        fi
    fi
done
printf 'total %d\n' $n
"#;

/// A message that is sent until it has an effect.
struct Repeated {
    id: String,
    /// The text of an input, or the effect of an operation.
    text: String,
    due: Instant,
}

impl Repeated {
    fn new(id: String, text: String) -> Repeated {
        Repeated { id, text, due: Instant::now() }
    }

    /// Whether it has to be sent now.
    fn is_due(&mut self) -> bool {
        let is_due = self.due <= Instant::now();
        if is_due {
            self.due = Instant::now() + AGAIN;
        }
        is_due
    }
}

/// How an operation ended, as its response says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Approved,
    Denied,
    InDoubt,
}

/// One run from its start to its end.
pub(super) struct Job {
    name: String,
    start: Repeated,
    /// The run, once it is known.
    pub(super) run: Option<String>,
    inputs: Vec<Repeated>,
    operations: Vec<Repeated>,
    /// The inputs that were sent, and the operations with their outcome.
    pub(super) typed: Vec<String>,
    pub(super) done: BTreeMap<String, Done>,
    ends: Instant,
    next: Instant,
    searched: Instant,
    is_ending: bool,
    pub(super) is_over: bool,
}

impl Job {
    pub(super) fn new(name: String, random: &mut Random) -> Job {
        Job {
            start: Repeated::new(format!("start-{name}"), String::new()),
            name,
            run: None,
            inputs: Vec::new(),
            operations: Vec::new(),
            typed: Vec::new(),
            done: BTreeMap::new(),
            ends: Instant::now() + random.time(LIFE),
            next: Instant::now(),
            searched: Instant::now(),
            is_ending: false,
            is_over: false,
        }
    }

    /// Sends what is due, and notes what has happened.
    pub(super) fn step(&mut self, stage: &HostStage, app: &mut App, random: &mut Random) {
        let Some(run) = self.run.clone() else { return self.begin(stage, app) };
        // Before its first output, the terminal echoes.
        if !app.view(&run).events().any(|event| !event.text.is_empty()) {
            return;
        }
        self.note(stage, app, &run);
        self.send(app, &run);
        let outstanding = self.inputs.len() + self.operations.len();
        if self.is_ending {
            self.is_over = outstanding == 0 && app.view(&run).has_exited();
        } else if outstanding == 0 && (Instant::now() >= self.ends || stage.is_calm()) {
            self.is_ending = true;
            self.type_text("end".to_owned());
        } else if outstanding < OUTSTANDING && Instant::now() >= self.next && !stage.is_calm() {
            self.next = Instant::now() + random.time(PAUSE);
            self.add(stage, random);
        }
    }

    /// Starts the run; the same request starts it once.
    fn begin(&mut self, stage: &HostStage, app: &mut App) {
        let request = &self.start.id;
        if let Some(response) = app.responses.remove(request) {
            match response["result"]["run_id"].as_str() {
                Some(run) => {
                    app.watch(run);
                    stage.runs.lock().unwrap().push(run.to_owned());
                    self.run = Some(run.to_owned());
                    return;
                }
                None => report_refusal(stage, Work::Runs, &response),
            }
        }
        if self.start.is_due() {
            let data = json!({ "request_id": self.start.id, "host_id": HOST, "tool": "shell", "cmd": PROGRAM, "cwd": null });
            app.send("rpc.run.start", None, data);
        }
    }

    /// What has not taken effect yet, for a note.
    pub(super) fn outstanding(&self) -> String {
        let open: Vec<&str> =
            self.inputs.iter().chain(&self.operations).map(|open| open.id.as_str()).collect();
        format!("{} ({}): {open:?}", self.name, self.run.as_deref().unwrap_or("not started"))
    }

    /// Adds an input or an operation.
    fn add(&mut self, stage: &HostStage, random: &mut Random) {
        let number = self.typed.len() + self.operations.len() + self.done.len();
        let name = format!("{}-{number}", self.name);
        if random.once_in(2) {
            stage.counters.started(Work::Inputs);
            return self.type_text(name);
        }
        stage.counters.started(Work::Operations);
        let (kind, answer) = (random.pick(&["bash", "write"]), random.pick(&["approve", "deny"]));
        let name = format!("{kind}-{answer}-{name}");
        self.operations.push(Repeated::new(name.clone(), name));
    }

    fn type_text(&mut self, text: String) {
        self.typed.push(text.clone());
        self.inputs.push(Repeated::new(format!("{}-input-{text}", self.name), text));
    }

    fn send(&mut self, app: &mut App, run: &str) {
        for (number, input) in self.inputs.iter_mut().enumerate() {
            if input.is_due() {
                let line = format!("{}\n", input.text);
                match number % 2 {
                    0 => {
                        app.send("run.send_input", Some(run), json!({ "input_id": input.id, "text": line }));
                    }
                    _ => app.post_input(run, &input.id, &line),
                }
            }
        }
        for operation in &mut self.operations {
            if operation.is_due() {
                let (id, text) = (&operation.id, &operation.text);
                match text.starts_with("bash") {
                    true => {
                        let line = format!("echo {text} >> effects");
                        app.send("rpc.bash", Some(run), json!({ "request_id": id, "cmd": line }));
                    }
                    false => {
                        let data = json!({ "request_id": id, "path": text, "content": text });
                        app.send("rpc.fs.write", Some(run), data);
                    }
                }
            }
        }
    }

    /// Removes inputs that took effect, and operations with a response.
    fn note(&mut self, stage: &HostStage, app: &mut App, run: &str) {
        if !self.inputs.is_empty() && self.searched.elapsed() > SEARCH {
            self.searched = Instant::now();
            let lines = app.view(run).lines();
            self.inputs.retain(|input| {
                let is_open = !lines.iter().any(|line| line.strip_prefix("input ") == Some(&input.text));
                if !is_open && input.text != "end" {
                    stage.counters.ended(Work::Inputs, Outcome::Finished);
                }
                is_open
            });
        }
        let done = &mut self.done;
        self.operations.retain(|operation| {
            let Some(response) = app.responses.remove(&operation.id) else { return true };
            let error = response["error"].as_str().unwrap_or_default();
            let outcome = match response["ok"] == true {
                true => Done::Approved,
                false if error == "denied" => Done::Denied,
                false if error.starts_with("in doubt") => Done::InDoubt,
                false => {
                    report_refusal(stage, Work::Operations, &response);
                    return true;
                }
            };
            let ended = if outcome == Done::InDoubt { Outcome::InDoubt } else { Outcome::Finished };
            stage.counters.ended(Work::Operations, ended);
            done.insert(operation.text.clone(), outcome);
            false
        });
    }
}

/// An error after which the request is sent again must permit that.
fn report_refusal(stage: &HostStage, work: Work, response: &Value) {
    let error = response["error"].as_str().unwrap_or_default();
    if !REPEATABLE.contains(&error) {
        stage.counters.unanswered(work, format!("refused without a reason: {response}"));
    }
}

/// Approves or denies what waits, until the run is over.
pub(super) fn decide(app: &mut App, asked: &mut BTreeMap<String, Instant>) {
    let waiting: Vec<(String, String)> =
        app.asked.iter().map(|(id, run)| (id.clone(), run.clone())).collect();
    for (id, run) in waiting {
        app.watch(&run);
        if app.view(&run).has("run.permission_decided", &id) {
            app.asked.remove(&id);
            asked.remove(&id);
            continue;
        }
        let due = asked.entry(id.clone()).or_insert_with(Instant::now);
        if *due <= Instant::now() {
            *due = Instant::now() + AGAIN;
            let word = if id.contains("-approve-") { "approve" } else { "deny" };
            app.send(&format!("run.permission.{word}"), Some(&run), json!({ "request_id": id }));
        }
    }
}
