import LanyardFoundations
import Logging

/// One log event as one line of JSON. Integers, numbers and booleans keep their JSON type.
enum JSONLogLine {
    private static let reservedKeys: Set<String> = ["time", "level", "msg", "event", "truncated"]

    /// Appends the line, its newline included.
    static func write(
        _ event: LogEvent, _ metadata: Logger.Metadata, at time: WallTime, to line: inout JSONWriter
    ) {
        line.beginObject()
        line.key("time")
        line.time(time)
        line.key("level")
        line.string(event.level.rawValue)
        line.key("msg")
        line.string(event.message.description, bytesMax: PipeLogHandler.valueBytesMax)
        if let name = metadata["event"] {
            line.key("event")
            write(name, to: &line, depth: 0)
        }
        if let error = event.error {
            line.key("error")
            line.string(String(describing: error), bytesMax: PipeLogHandler.valueBytesMax)
        }
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) where key != "event" {
            guard line.bytes.count < PipeLogHandler.lineBytesMax - 2 * PipeLogHandler.valueBytesMax else {
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
    }

    private static func write(_ value: Logger.MetadataValue, to line: inout JSONWriter, depth: Int) {
        guard depth < 4, line.bytes.count < PipeLogHandler.lineBytesMax - 2 * PipeLogHandler.valueBytesMax else {
            return line.string("…")
        }
        switch value {
        case .string(let text): line.string(text, bytesMax: PipeLogHandler.valueBytesMax)
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
        default: line.string(value.description, bytesMax: PipeLogHandler.valueBytesMax)
        }
    }
}
