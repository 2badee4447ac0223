//! What a client of version 5 is told at the end of a command.
//!
//! Runtimes speak version 4 at most, so for version 5 upstream's kubelet is a client of the runtime's, and tells its own
//! client what became of that: success, the exit code, or else an internal error that wraps the runtime's (with its
//! words doubled). Older versions are passed on as they are.

use serde_json::{Value, json};

/// The last words of a runtime: its `Status`, or nothing.
pub(super) fn of_runtime(last_words: &[u8]) -> Value {
    if last_words.is_empty() {
        return success();
    }
    match judge(last_words) {
        Ok(status) => status,
        Err(why) => internal(&why),
    }
}

fn judge(last_words: &[u8]) -> Result<Value, String> {
    let protocol = |why: &str| format!("error stream protocol error: {why}");
    let status: Value = serde_json::from_slice(last_words).map_err(|error| {
        let text = String::from_utf8_lossy(last_words);
        protocol(&format!("{error} in {}", Value::from(text)))
    })?;
    match status["status"].as_str() {
        Some("Success") => return Ok(success()),
        Some("Failure") => {}
        _ => return Err(protocol("unknown error")),
    }
    if status["reason"] != "NonZeroExitCode" {
        return Err(status["message"].as_str().unwrap_or_default().to_owned());
    }
    let Some(details) = status["details"].as_object() else { return Err(protocol("details must be set")) };
    let mut causes = details.get("causes").and_then(Value::as_array).into_iter().flatten();
    let Some(cause) = causes.find(|cause| cause["reason"] == "ExitCode") else {
        return Err(protocol("no ExitCode cause given"));
    };
    let text = cause["message"].as_str().unwrap_or_default();
    let code = text.parse::<u8>().map_err(|_| protocol(&format!("invalid exit code value {}", Value::from(text))))?;
    let message = format!("command terminated with non-zero exit code: command terminated with exit code {code}");
    Ok(json!({
        "metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    }))
}

fn success() -> Value {
    json!({"metadata": {}, "status": "Success"})
}

/// Something went wrong between here and the runtime, or there.
pub(super) fn internal(why: &str) -> Value {
    json!({
        "metadata": {}, "status": "Failure", "message": format!("Internal error occurred: {why}"),
        "reason": "InternalError", "details": {"causes": [{"message": why}]}, "code": 500,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ended() {
        assert_eq!(of_runtime(b"")["status"], "Success");
        assert_eq!(of_runtime(br#"{"metadata":{},"status":"Success"}"#), success());
        let failed = json!({"status": "Failure", "message": "command terminated with non-zero exit code: 3",
            "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}});
        let told = of_runtime(failed.to_string().as_bytes());
        assert_eq!(told["reason"], "NonZeroExitCode");
        assert_eq!(told["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
    }

    #[test]
    fn a_command_that_never_ran_is_an_internal_error_of_an_internal_error() {
        let runtime = internal("error executing command in container: no such file");
        let told = of_runtime(runtime.to_string().as_bytes());
        let message =
            "Internal error occurred: Internal error occurred: error executing command in container: no such file";
        assert_eq!((told["message"].as_str(), told["code"].as_u64()), (Some(message), Some(500)));
    }

    #[test]
    fn words_that_are_no_status() {
        for (words, why) in [
            ("x", "error stream protocol error: "),
            ("{}", "error stream protocol error: unknown error"),
            (r#"{"status":"Failure","reason":"NonZeroExitCode"}"#, "error stream protocol error: details must be set"),
            (
                r#"{"status":"Failure","reason":"NonZeroExitCode","details":{}}"#,
                "error stream protocol error: no ExitCode cause given",
            ),
        ] {
            let told = of_runtime(words.as_bytes());
            let message = told["message"].as_str().unwrap();
            assert!(message.starts_with(&format!("Internal error occurred: {why}")), "{message}");
        }
    }
}
