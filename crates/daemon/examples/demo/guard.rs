//! The guard: what the kernel refuses below the shell, and what waits until a person has decided.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::expect;
use crate::talk::Talk;

/// What the operator of this demonstration wants asked.
pub(crate) const POLICY: &str = "\
[[policy.rules]]
name = \"deletions\"
action = \"ask\"
argv = [\"rm\", \"*\"]
reason = \"somebody should look before something is deleted\"

";

/// A confined command writes where it may, and the kernel refuses the rest.
pub(crate) fn confine(talk: &mut Talk<'_>, session: &str) -> Result<()> {
    talk.heading("a sandbox below the shell: the workspace can be written, everything else cannot")?;
    let line = "echo inside > made.txt && echo outside > ../made.txt";
    let params =
        json!({ "session_id": session, "shell": true, "command": line, "sandbox": "workspace-write" });
    let answer = talk.answer("exec.start", params)?;
    if answer["error"]["code"] == -32007 {
        return talk
            .note("this kernel cannot hold the profile, so nothing was started; rexd doctor says more");
    }
    let (_, exit) = talk.until("exec.exit", &answer["result"]["process_id"])?;
    expect(&exit["sandbox_denied"]["access"], "write")?;
    talk.note(&format!("the exit says so: sandbox_denied {}", exit["sandbox_denied"]))?;
    let made = talk.ask("fs.stat", json!({ "session_id": session, "path": "made.txt" }))?;
    expect(&made["exists"], true)
}

/// A command that is asked about runs when somebody has approved it.
pub(crate) fn ask_first(talk: &mut Talk<'_>, session: &str) -> Result<()> {
    talk.heading("a person decides: the operator wants deletions asked about")?;
    let asked = talk.send("exec.start", json!({ "session_id": session, "argv": ["rm", "src/list.txt"] }))?;
    let question = talk.line(|line| line["method"] == "approval.requested")?;
    let id = question["params"]["approval_id"].clone();
    expect(&question["params"]["operation"]["argv"], json!(["rm", "src/list.txt"]))?;
    let params = json!({ "session_id": session, "approval_id": id, "decision": "approve" });
    let answered = talk.send("approval.answer", params)?;
    let mut process = None;
    let mut is_answered = false;
    while process.is_none() || !is_answered {
        let line = talk.line(|line| line["id"] == asked || line["id"] == answered)?;
        ensure!(line.get("error").is_none(), "refused: {}", line["error"]);
        match line["id"] == asked {
            true => process = Some(line["result"]["process_id"].clone()),
            false => is_answered = true,
        }
    }
    let (_, exit) = talk.until("exec.exit", &process.context("a process")?)?;
    expect(&exit["exit_code"], 0)
}
