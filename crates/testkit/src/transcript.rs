//! Transcripts: conversations as text files, replayed over any transport of lines.
//!
//! The format is described in `spec/rexd-v1/README.md`.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

pub use crate::pattern::Vars;
use crate::pattern::{matches, parse};

/// The deadline of an expected line.
const PATIENCE: Duration = Duration::from_secs(60);

/// The transport of lines: a child's standard streams, or a socket.
pub trait Transport {
    /// Sends bytes; a line includes its newline.
    fn send(&mut self, bytes: &[u8]) -> Result<()>;
    /// The next line without its newline; `None` at the end. Fails after `within`.
    fn recv_line(&mut self, within: Duration) -> Result<Option<String>>;
    /// Closes the client's side.
    fn close(&mut self) -> Result<()>;
    /// The exit status of the peer after its last line; 0 for a socket.
    fn exit_code(&mut self) -> Result<i32>;
}

/// Replays the file at `path`. The error names the line of the file and the actual message.
pub fn check_file(path: &Path, transport: &mut dyn Transport, vars: &Vars) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    check(&text, transport, vars).with_context(|| path.display().to_string())
}

/// Replays the text of a transcript.
pub fn check(text: &str, transport: &mut dyn Transport, vars: &Vars) -> Result<()> {
    let steps = read(text)?;
    let mut replay = Replay { transport, vars: vars.clone(), early: VecDeque::new() };
    for (number, step) in &steps {
        replay.step(step).with_context(|| format!("line {number}"))?;
    }
    Ok(())
}

/// One step of a transcript.
#[derive(Debug, PartialEq)]
enum Step {
    Send(String),
    SendRaw(Vec<u8>),
    /// A binary message: its payload and its header.
    SendBinary(String, String),
    /// Lines in this order within each channel; a group of several may come in any order.
    Expect(Vec<Value>),
    /// Output of a process on a stream, independent of its split into messages.
    Output {
        process: String,
        stream: String,
        text: String,
    },
    Close,
    End,
}

fn read(text: &str) -> Result<Vec<(usize, Step)>> {
    let mut steps: Vec<(usize, Step)> = Vec::new();
    let mut grows = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let is_group = line.starts_with("<? ");
        if let (true, true, Some((_, Step::Expect(group)))) = (is_group, grows, steps.last_mut()) {
            group.push(parse(&line[3..]).with_context(|| format!("line {number}"))?);
            continue;
        }
        grows = is_group;
        let step = match line.split_once(' ').unwrap_or((line, "")) {
            (">", rest) => Step::Send(rest.to_owned()),
            (">raw", rest) => Step::SendRaw(unescape(rest).with_context(|| format!("line {number}"))?),
            (">bin", rest) => binary(rest).with_context(|| format!("line {number}"))?,
            ("<" | "<?", rest) => Step::Expect(vec![parse(rest).with_context(|| format!("line {number}"))?]),
            ("<out", rest) => output(rest).with_context(|| format!("line {number}"))?,
            ("close", "") => Step::Close,
            ("end", "") => Step::End,
            ("", "") => continue,
            (word, _) if word.starts_with('#') => continue,
            _ => bail!("line {number}: unknown step: {line}"),
        };
        steps.push((number, step));
    }
    Ok(steps)
}

/// `PROCESS STREAM "TEXT"`.
fn output(rest: &str) -> Result<Step> {
    let mut parts = rest.splitn(3, ' ').map(str::to_owned);
    let (Some(process), Some(stream), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
        bail!("expected a process, a stream and a text: {rest}")
    };
    Ok(Step::Output { process, stream, text: serde_json::from_str(&text).context("not a text")? })
}

/// `"PAYLOAD" JSON`.
fn binary(rest: &str) -> Result<Step> {
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let payload = values.next().context("expected a payload")?.context("the payload is not a text")?;
    Ok(Step::SendBinary(payload, rest[values.byte_offset()..].trim_start().to_owned()))
}

/// Decodes `\r`, `\n`, `\t`, `\0`, `\\` and `\xNN`; adds no newline at the end.
fn unescape(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        out.push(match rest.next() {
            Some('r') => b'\r',
            Some('n') => b'\n',
            Some('t') => b'\t',
            Some('0') => 0,
            Some('\\') => b'\\',
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                ensure!(digits.len() == 2, "\\x needs two hexadecimal digits");
                u8::from_str_radix(&digits, 16).context("\\x needs two hexadecimal digits")?
            }
            other => bail!("unknown escape \\{}", other.map_or(String::new(), String::from)),
        });
    }
    Ok(out)
}

struct Replay<'a> {
    transport: &'a mut dyn Transport,
    vars: Vars,
    /// Lines of other channels received while waiting for one.
    early: VecDeque<Value>,
}

impl Replay<'_> {
    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Send(line) => self.transport.send(format!("{}\n", self.vars.fill(line)).as_bytes()),
            Step::SendRaw(bytes) => self.transport.send(bytes),
            Step::SendBinary(payload, header) => {
                let header = self.vars.fill(header);
                self.transport.send(&wire::binary::encode(header.as_bytes(), payload.as_bytes()))
            }
            Step::Expect(group) => self.expect(group),
            Step::Output { process, stream, text } => self.expect_output(process, stream, text),
            Step::Close => self.transport.close(),
            Step::End => self.expect_end(),
        }
    }

    /// Each pattern of the group takes the first line of its channel; within a group the order is free.
    fn expect(&mut self, group: &[Value]) -> Result<()> {
        let mut open: Vec<&Value> = group.iter().collect();
        let mut passed = VecDeque::new();
        while !open.is_empty() {
            let line = match self.early.pop_front() {
                Some(line) => line,
                None => self.receive().with_context(|| format!("waiting for {}", open[0]))?,
            };
            let mut reason = None;
            let taken = open.iter().position(|pattern| match matches(pattern, &line, &mut self.vars) {
                Ok(()) => true,
                Err(error) => {
                    if channel(pattern, &self.vars) == channel(&line, &self.vars) {
                        reason = Some(error);
                    }
                    false
                }
            });
            match (taken, reason) {
                (Some(index), _) => drop(open.remove(index)),
                // In a group another line of the channel may match, so only a single pattern fails here.
                (None, Some(reason)) if group.len() == 1 => return Err(reason.context(format!("got {line}"))),
                (None, _) => passed.push_back(line),
            }
        }
        passed.append(&mut self.early);
        self.early = passed;
        Ok(())
    }

    /// Reads messages of a process until they contain the whole text; no other output may come between.
    fn expect_output(&mut self, process: &str, stream: &str, text: &str) -> Result<()> {
        let wanted = self.vars.fill(text);
        let mut output = String::new();
        let mut passed = VecDeque::new();
        while output != wanted {
            let line = match self.early.pop_front() {
                Some(line) => line,
                None => self.receive().with_context(|| format!("waiting for {wanted:?} after {output:?}"))?,
            };
            let params = &line["params"];
            if params["processId"] != process || line.get("method").is_none() {
                passed.push_back(line);
                continue;
            }
            let chunk = params["chunk"].as_str().with_context(|| format!("expected output, got {line}"))?;
            ensure!(params["stream"] == stream, "expected {stream}, got {line}");
            output += &String::from_utf8(wire::base64::decode(chunk).context("base64")?)?;
            ensure!(wanted.starts_with(&output), "expected {wanted:?}, got {output:?}");
        }
        passed.append(&mut self.early);
        self.early = passed;
        Ok(())
    }

    fn receive(&mut self) -> Result<Value> {
        let Some(line) = self.transport.recv_line(PATIENCE)? else {
            bail!("the peer closed; not expected so far: {:?}", self.early)
        };
        serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))
    }

    fn expect_end(&mut self) -> Result<()> {
        ensure!(self.early.is_empty(), "lines that nothing expected: {:?}", self.early);
        let line = self.transport.recv_line(PATIENCE)?;
        ensure!(line.is_none(), "expected the end, got {}", line.unwrap_or_default());
        let code = self.transport.exit_code()?;
        ensure!(code == 0, "the peer exited with {code}");
        Ok(())
    }
}

/// An ordered channel: responses to one id, or events of one process or, without one, of one method.
fn channel(line: &Value, vars: &Vars) -> String {
    let text = |value: &Value| match value {
        Value::String(name) => match name.strip_prefix('$').and_then(|name| vars.get(name)) {
            Some(bound) => bound.to_string(),
            None => value.to_string(),
        },
        other => other.to_string(),
    };
    match (line.get("method"), line.get("id")) {
        (Some(method), _) => match line.pointer("/params/process_id").or(line.pointer("/params/processId")) {
            Some(process) => format!("process {}", text(process)),
            None => format!("event {}", text(method)),
        },
        (None, Some(id)) => format!("answer {}", text(id)),
        (None, None) => "other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns prepared lines and records sent ones.
    #[derive(Default)]
    struct Script {
        lines: VecDeque<String>,
        sent: Vec<u8>,
        closed: bool,
        code: i32,
    }

    impl Transport for Script {
        fn send(&mut self, bytes: &[u8]) -> Result<()> {
            self.sent.extend_from_slice(bytes);
            Ok(())
        }

        fn recv_line(&mut self, _within: Duration) -> Result<Option<String>> {
            Ok(self.lines.pop_front())
        }

        fn close(&mut self) -> Result<()> {
            self.closed = true;
            Ok(())
        }

        fn exit_code(&mut self) -> Result<i32> {
            Ok(self.code)
        }
    }

    fn run(transcript: &str, lines: &[&str]) -> (Result<()>, Script) {
        let mut script =
            Script { lines: lines.iter().map(|line| (*line).to_owned()).collect(), ..Script::default() };
        let result = check(transcript, &mut script, &Vars::new().with("ROOT", "/r"));
        (result, script)
    }

    #[test]
    fn a_conversation_is_replayed_with_bound_names() {
        let transcript = "# opening\n\n> {\"id\":1,\"root\":\"$ROOT\"}\n< {\"id\":1,\"result\":{\"s\":\"$S\", ...}}\n> {\"s\":\"$S\"}\nclose\nend\n";
        let (result, script) = run(transcript, &[r#"{"id":1,"result":{"s":"s_1","x":1}}"#]);
        result.unwrap();
        assert_eq!(String::from_utf8(script.sent).unwrap(), "{\"id\":1,\"root\":\"/r\"}\n{\"s\":\"s_1\"}\n");
        assert!(script.closed);
    }

    #[test]
    fn answers_and_events_of_different_channels_may_pass_each_other() {
        let transcript = "< {\"id\":1}\n< {\"id\":2}\n< {\"method\":\"e\",\"params\":{\"process_id\":\"p\",\"n\":1}}\n< {\"method\":\"e\",\"params\":{\"process_id\":\"p\",\"n\":2}}\nend";
        let (first, second) = (
            r#"{"method":"e","params":{"process_id":"p","n":1}}"#,
            r#"{"method":"e","params":{"process_id":"p","n":2}}"#,
        );
        run(transcript, &[r#"{"id":2}"#, first, r#"{"id":1}"#, second]).0.unwrap();
        let error = run(transcript, &[r#"{"id":2}"#, second, r#"{"id":1}"#, first]).0.unwrap_err();
        assert!(format!("{error:#}").starts_with("line 3: got "), "{error:#}");
    }

    #[test]
    fn output_is_compared_however_it_is_split() {
        let chunk = |text: &str| {
            let chunk = wire::base64::encode(text.as_bytes());
            format!(r#"{{"method":"o","params":{{"processId":"p","stream":"stdout","chunk":"{chunk}"}}}}"#)
        };
        let (one, two) = (chunk("a\n"), chunk("b"));
        let transcript = "< {\"id\":1}\n<out p stdout \"a\\nb\"\nend";
        run(transcript, &[&one, r#"{"id":1}"#, &two]).0.unwrap();
        run(transcript, &[r#"{"id":1}"#, &chunk("a\nb")]).0.unwrap();
        assert!(run(transcript, &[r#"{"id":1}"#, &chunk("a\nbc")]).0.is_err());
        let ended = r#"{"method":"exited","params":{"processId":"p"}}"#;
        assert!(run(transcript, &[r#"{"id":1}"#, &one, ended, &two]).0.is_err());
    }

    #[test]
    fn a_group_comes_in_any_order() {
        let transcript = "<? {\"method\":\"e\",\"n\":1}\n<? {\"method\":\"e\",\"n\":2}\nend";
        run(transcript, &[r#"{"method":"e","n":2}"#, r#"{"method":"e","n":1}"#]).0.unwrap();
        assert!(run(transcript, &[r#"{"method":"e","n":2}"#, r#"{"method":"e","n":2}"#]).0.is_err());
    }

    #[test]
    fn what_nothing_expects_fails_at_the_end() {
        assert!(run("< {\"id\":1}\nend", &[r#"{"method":"e"}"#, r#"{"id":1}"#]).0.is_err());
        assert!(run("end", &["{}"]).0.is_err());
        assert!(run("< {\"id\":1}", &[]).0.is_err());
        assert!(run("< {\"id\":1}", &["not json"]).0.is_err());
        let mut script = Script { code: 1, ..Script::default() };
        assert!(check("end", &mut script, &Vars::new()).is_err());
    }

    #[test]
    fn broken_input_is_written_with_escapes() {
        let (result, script) = run(">raw {\"a\\\\\\r\\n\\0\\xff", &[]);
        result.unwrap();
        assert_eq!(script.sent, b"{\"a\\\r\n\0\xff");
        assert!(
            run(">raw \\q", &[]).0.is_err()
                && run(">raw \\x1", &[]).0.is_err()
                && run("? what", &[]).0.is_err()
        );
    }
}
