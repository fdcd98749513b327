import Glibc
import LanyardFoundations

/// How lines of the text format look on a terminal: `17:40:03 info     request method=GET …`.
///
/// The time is local and short, the level is aligned and coloured. A request that Lanyard has refused has one line, which says why; its
/// line of the access log is left out. From any thread.
package final class TerminalLines: Sendable {
    /// Refused requests whose line of the access log may still come.
    private static let refusedMax = 1024
    /// Characters of the longest level, `critical`.
    private static let levelWidth = 8
    /// Characters of `2026-11-27T17:40:03.123Z`.
    private static let timeWidth = 24

    private let usesColour: Bool
    private let refused = Guarded<[Substring]>([])

    package init(usesColour: Bool) { self.usesColour = usesColour }

    /// Whole lines as they are shown. A line of another form stays as it is.
    package func shown(_ lines: UnsafeRawBufferPointer) -> [UInt8] {
        var shown: [UInt8] = []
        shown.reserveCapacity(lines.count)
        for line in lines.split(separator: UInt8(ascii: "\n")) {
            guard let text = self.shown(String(decoding: line, as: UTF8.self)) else { continue }
            shown.append(contentsOf: text.utf8)
            shown.append(UInt8(ascii: "\n"))
        }
        return shown
    }

    /// nil: the line is left out.
    private func shown(_ line: String) -> String? {
        let parts = line.split(separator: " ", maxSplits: 2)
        guard parts.count == 3, parts[0].count == Self.timeWidth, let time = Self.localTime(parts[0]) else {
            return line
        }
        if let id = Self.requestID(in: line) {
            if line.contains(" event=request.refused ") {
                refused.withLock { refused in
                    if refused.count == Self.refusedMax { refused.removeFirst(Self.refusedMax / 2) }
                    refused.append(id)
                }
            } else if line.contains(" event=access "), takeRefused(id) {
                return nil
            }
        }
        let padding = String(repeating: " ", count: max(Self.levelWidth - parts[1].count, 0))
        let level = "\(parts[1])\(padding)"
        return "\(time) \(coloured(level, parts[1])) \(parts[2])"
    }

    /// Whether the request has a line that says why it was refused. Once.
    private func takeRefused(_ id: Substring) -> Bool {
        refused.withLock { refused in
            guard let place = refused.lastIndex(of: id) else { return false }
            refused.remove(at: place)
            return true
        }
    }

    private static func requestID(in line: String) -> Substring? {
        line.firstRange(of: " request_id=").map { line[$0.upperBound...].prefix { $0 != " " } }
    }

    private func coloured(_ text: String, _ level: Substring) -> String {
        guard usesColour else { return text }
        let code =
            switch level {
            case "critical", "error": "31"
            case "warning": "33"
            case "notice": "32"
            case "debug", "trace": "2"
            default: ""
            }
        return code.isEmpty ? text : "\u{1b}[\(code)m\(text)\u{1b}[0m"
    }

    /// `17:40:03` in the time zone of this process; nil: it is no time.
    private static func localTime(_ text: Substring) -> String? {
        let fields = text.split { "-T:.Z".contains($0) }.compactMap { Int32($0) }
        guard fields.count == 7 else { return nil }
        var utc = tm()
        (utc.tm_year, utc.tm_mon, utc.tm_mday) = (fields[0] - 1900, fields[1] - 1, fields[2])
        (utc.tm_hour, utc.tm_min, utc.tm_sec) = (fields[3], fields[4], fields[5])
        var (seconds, local) = (timegm(&utc), tm())
        guard localtime_r(&seconds, &local) != nil else { return nil }
        return [local.tm_hour, local.tm_min, local.tm_sec].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
    }
}
