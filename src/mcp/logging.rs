//! Log messages sent to the MCP client, if it asked for them.
#![expect(deprecated, reason = "the newest revision has no logging; clients of the others have")]

use std::sync::Mutex;
use std::sync::PoisonError;

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::RequestContext;
use serde_json::json;

/// The lowest severity that the client wants; no messages until it sets one.
#[derive(Default)]
pub struct Logging(Mutex<Option<LoggingLevel>>);

impl Logging {
    /// Sets the lowest severity.
    pub fn set(&self, level: LoggingLevel) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// Logs a call that has ended.
    pub async fn tell(&self, context: &RequestContext<RoleServer>, tool: &str, result: &CallToolResult) {
        let is_error = result.is_error == Some(true);
        let level = if is_error { LoggingLevel::Warning } else { LoggingLevel::Debug };
        let wanted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.is_none_or(|wanted| severity(level) < severity(wanted)) {
            return;
        }
        let data = json!({ "tool": tool, "ok": !is_error });
        let message = LoggingMessageNotificationParam::new(level, data);
        // If sending fails, the client is gone, and the transport knows.
        let _ = context.peer.notify_logging_message(message).await;
    }
}

/// Returns the severity of a level as a number.
fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
