import LanyardFoundations
import Logging

/// A logger whose lines a test reads.
package final class LogRecorder: Sendable {
    private let held = Guarded<[String]>([])

    package init() {}

    /// Message and metadata of each line.
    package var lines: [String] { held.withLock { $0 } }

    package var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }

    private struct Handler: LogHandler {
        let log: LogRecorder
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let line = "\(event.level) \(event.message) \(event.metadata ?? [:])"
            log.held.withLock { $0.append(line) }
        }
    }
}
