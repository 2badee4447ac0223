//! Tasks of which only so many run at a time, and the newest always.

use std::collections::VecDeque;
use std::future::Future;

use tokio::task::AbortHandle;

/// Runs a task for each client that comes. Where there are too many, the oldest ends: who means harm is slow, and keeps
/// nobody else out by it.
#[derive(Debug)]
pub(crate) struct Newest {
    running: VecDeque<AbortHandle>,
    limit: usize,
}

impl Newest {
    /// At most `limit` at a time.
    pub(crate) fn new(limit: usize) -> Self {
        Self { running: VecDeque::new(), limit }
    }

    /// Runs one more.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        if self.running.len() >= self.limit {
            self.running.retain(|task| !task.is_finished());
        }
        if self.running.len() >= self.limit
            && let Some(oldest) = self.running.pop_front()
        {
            tracing::debug!(limit = self.limit, "too many clients at a time; the oldest is given up");
            oldest.abort();
        }
        self.running.push_back(tokio::spawn(task).abort_handle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_makes_room() {
        let mut newest = Newest::new(2);
        let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..3 {
            let sender = sender.clone();
            newest.spawn(async move {
                // Says so when it is dropped.
                struct End(u32, tokio::sync::mpsc::UnboundedSender<u32>);
                impl Drop for End {
                    fn drop(&mut self) {
                        let _ = self.1.send(self.0);
                    }
                }
                let _end = End(number, sender);
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(ended.recv().await, Some(0));
        assert!(ended.try_recv().is_err());
    }
}
