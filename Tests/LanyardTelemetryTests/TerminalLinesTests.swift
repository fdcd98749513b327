import Glibc
import LanyardTelemetry
import Testing

/// The text format on a terminal.
@Suite struct TerminalLinesTests {
    private func shown(_ lines: [String], by terminal: TerminalLines = TerminalLines(usesColour: false)) -> [String] {
        let bytes = Array((lines.joined(separator: "\n") + "\n").utf8)
        return bytes.withUnsafeBytes { String(decoding: terminal.shown($0), as: UTF8.self) }
            .split(separator: "\n").map(String.init)
    }

    /// The hour of 12:00 UTC in the time zone of the tests.
    private static let time: String = {
        var utc = tm()
        (utc.tm_year, utc.tm_mon, utc.tm_mday, utc.tm_hour) = (126, 10, 27, 12)
        var (seconds, local) = (timegm(&utc), tm())
        localtime_r(&seconds, &local)
        return "\(local.tm_hour < 10 ? "0" : "")\(local.tm_hour):\(local.tm_min < 10 ? "0" : "")\(local.tm_min):03"
    }()

    @Test("the time is short and local, and the level has the same width in each line")
    func aligned() {
        let lines = ["info", "critical"].map { "2026-11-27T12:00:03.123Z \($0) serving event=serving" }
        #expect(
            shown(lines) == [
                "\(Self.time) info     serving event=serving", "\(Self.time) critical serving event=serving",
            ])
        // As a log of another format.
        #expect(shown([#"{"time":"2026"}"#, "a b"]) == [#"{"time":"2026"}"#, "a b"])
    }

    @Test("levels that an operator must see are coloured, where colours are shown")
    func coloured() {
        let terminal = TerminalLines(usesColour: true)
        for (level, code) in [("error", "31"), ("warning", "33")] {
            let line = shown(["2026-11-27T12:00:03.123Z \(level) a b=c"], by: terminal)[0]
            #expect(line.hasPrefix("\(Self.time) \u{1b}[\(code)m\(level)") && line.hasSuffix("\u{1b}[0m a b=c"))
        }
        #expect(shown(["2026-11-27T12:00:03.123Z info a b=c"], by: terminal) == ["\(Self.time) info     a b=c"])
    }

    @Test("a refused request has one line, which says why; another request has its own")
    func refused() {
        let begin = "2026-11-27T12:00:03.123Z"
        let lines = [
            "\(begin) info refused event=request.refused cause=x request_id=0a status=404",
            "\(begin) info request event=access request_id=0a status=404 origin=lanyard",
            "\(begin) info request event=access request_id=0b status=404 origin=upstream",
            "\(begin) info request event=access request_id=0a status=200 origin=upstream",
        ]
        #expect(shown(lines).map { $0.contains("event=access") } == [false, true, true])
    }
}
