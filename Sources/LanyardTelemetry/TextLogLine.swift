import LanyardFoundations
import Logging

/// One log event as one line of text, for an operator at a terminal: `TIME LEVEL MESSAGE key=value …`.
///
/// A value with a space, a quote, an equals sign or a control byte is quoted and escaped as in JSON, so a line stays one line and a value
/// stays one value.
enum TextLogLine {
    /// Appends the line, its newline included.
    static func write(
        _ event: LogEvent, _ metadata: Logger.Metadata, at time: WallTime, to line: inout JSONWriter
    ) {
        line.raw(Timestamp.text(time))
        line.raw(" \(event.level.rawValue) ")
        // The message is Lanyard's own text. Only its escapes matter, not its quotes.
        line.unquoted(event.message.description, bytesMax: PipeLogHandler.valueBytesMax)
        if let name = metadata["event"] { member("event", name, &line) }
        if let error = event.error { member("error", .string(String(describing: error)), &line) }
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) where key != "event" {
            guard line.bytes.count < PipeLogHandler.lineBytesMax - 2 * PipeLogHandler.valueBytesMax else {
                line.raw(" truncated=true")
                break
            }
            member(key, value, &line)
        }
        line.raw("\n")
    }

    private static func member(_ key: String, _ value: Logger.MetadataValue, _ line: inout JSONWriter) {
        line.raw(" ")
        line.unquoted(key, bytesMax: PipeLogHandler.valueBytesMax)
        line.raw("=")
        let text = value.description
        let isPlain = !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !reserved.contains($0) }
        if isPlain, text.utf8.count <= PipeLogHandler.valueBytesMax {
            line.raw(text)
        } else {
            line.quoted(text, bytesMax: PipeLogHandler.valueBytesMax)
        }
    }

    private static let reserved: [UInt8] = [UInt8(ascii: "\""), UInt8(ascii: "="), UInt8(ascii: "\\")]
}
