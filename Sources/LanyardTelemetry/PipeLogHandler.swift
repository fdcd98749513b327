import LanyardFoundations
import Logging

/// swift-log's back end: one line for each event, on standard error, as `JSONLogLine` or `TextLogLine`.
///
/// `time` (RFC 3339, milliseconds, UTC), `level`, `msg`, `event`, then the other metadata, flat and sorted. A value is cut at
/// `valueBytesMax` before its escapes. A line gets no further member where it might exceed `lineBytesMax`, and then it says `truncated`.
package struct PipeLogHandler: LogHandler {
    /// Bytes of one value, before its escapes.
    package static let valueBytesMax = 1_024
    /// Bytes of one line.
    package static let lineBytesMax = 8_192

    private let pipe: LogPipe
    private let verbosity: LogVerbosity
    private var ownLevel: Logger.Level?
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    package init(pipe: LogPipe, verbosity: LogVerbosity) {
        self.pipe = pipe
        self.verbosity = verbosity
    }

    /// The program's level, unless this logger has one of its own.
    package var logLevel: Logger.Level {
        get { ownLevel ?? verbosity.level }
        set { ownLevel = newValue }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        pipe.write(pipe.line(event, merged(event.metadata)))
    }

    /// Metadata of the logger, of its provider, of the call: the later one takes precedence.
    private func merged(_ explicit: Logger.Metadata?) -> Logger.Metadata {
        var all = metadata
        if let provided = metadataProvider?.get() { all.merge(provided) { $1 } }
        if let explicit { all.merge(explicit) { $1 } }
        return all
    }
}
