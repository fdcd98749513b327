import LanyardFoundations
import Logging

/// swift-log's back end: one JSON object a line, on standard error.
///
/// `time` (RFC 3339, milliseconds, UTC), `level`, `msg`, `event`, then the other metadata, flat and sorted. Integers, numbers and booleans
/// keep their JSON type. A value is cut at `valueBytesMax` before its escapes. A line gets no further member where it might exceed
/// `lineBytesMax`, and then states `"truncated":true`.
package struct JSONLogHandler: LogHandler {
    /// Bytes of one value, before its escapes.
    package static let valueBytesMax = 1_024
    /// Bytes of one line.
    package static let lineBytesMax = 8_192
    private static let reservedKeys: Set<String> = ["time", "level", "msg", "event", "truncated"]

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
        pipe.write(Self.line(event, merged(event.metadata), at: .now))
    }

    /// Metadata of the logger, of its provider, of the call: the later one takes precedence.
    private func merged(_ explicit: Logger.Metadata?) -> Logger.Metadata {
        var all = metadata
        if let provided = metadataProvider?.get() { all.merge(provided) { $1 } }
        if let explicit { all.merge(explicit) { $1 } }
        return all
    }

    /// One line, its newline included.
    static func line(_ event: LogEvent, _ metadata: Logger.Metadata, at time: WallTime) -> JSONWriter {
        var line = JSONWriter(capacity: 512)
        line.beginObject()
        line.key("time")
        line.time(time)
        line.key("level")
        line.string(event.level.rawValue)
        line.key("msg")
        line.string(event.message.description, bytesMax: valueBytesMax)
        if let name = metadata["event"] {
            line.key("event")
            write(name, to: &line, depth: 0)
        }
        if let error = event.error {
            line.key("error")
            line.string(String(describing: error), bytesMax: valueBytesMax)
        }
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) where key != "event" {
            guard line.bytes.count < lineBytesMax - 2 * valueBytesMax else {
                line.key("truncated")
                line.bool(true)
                break
            }
            // A reserved member is never written twice. `error` is the caller's own key where swift-log brought no error.
            let isTaken = key == "error" ? event.error != nil : reservedKeys.contains(key)
            line.key(isTaken ? key + "_" : key)
            write(value, to: &line, depth: 0)
        }
        line.endObject()
        line.newline()
        return line
    }

    private static func write(_ value: Logger.MetadataValue, to line: inout JSONWriter, depth: Int) {
        guard depth < 4, line.bytes.count < lineBytesMax - 2 * valueBytesMax else { return line.string("…") }
        switch value {
        case .string(let text): line.string(text, bytesMax: valueBytesMax)
        case .stringConvertible(let value): write(value, to: &line)
        case .array(let values):
            line.beginArray()
            for value in values { write(value, to: &line, depth: depth + 1) }
            line.endArray()
        case .dictionary(let members):
            line.beginObject()
            for (key, value) in members.sorted(by: { $0.key < $1.key }) {
                line.key(key)
                write(value, to: &line, depth: depth + 1)
            }
            line.endObject()
        }
    }

    private static func write(_ value: any CustomStringConvertible & Sendable, to line: inout JSONWriter) {
        switch value {
        case let value as any BinaryInteger: line.number(value)
        case let value as Double: line.number(value)
        case let value as Bool: line.bool(value)
        default: line.string(value.description, bytesMax: valueBytesMax)
        }
    }
}
