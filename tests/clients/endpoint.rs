//! A model's endpoint on loopback, for clients that can be told where their model is.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::installed::{Clients, script};

/// An endpoint that plays a script.
pub struct Endpoint {
    /// The process.
    process: Child,
    /// Its stdout.
    stdout: BufReader<ChildStdout>,
    /// Its port.
    pub port: String,
}

impl Endpoint {
    /// Starts it with the steps of a script.
    pub fn start(clients: &Clients, steps: &Value) -> Self {
        let mut command = clients.node();
        command.arg(script("endpoint.mjs")).arg(steps.to_string()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut port = String::new();
        stdout.read_line(&mut port).unwrap();
        Self { process, stdout, port: port.trim().to_owned() }
    }

    /// Returns the requests that it received so far.
    pub fn asked(&mut self) -> Vec<Value> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.stdout.by_ref().lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
