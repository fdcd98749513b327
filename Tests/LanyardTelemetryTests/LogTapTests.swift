import Glibc
import LanyardFoundations
import Testing

@testable import LanyardTelemetry

/// The lines that operators follow.
@Suite struct LogTapTests {
    private static func append(_ text: String, to tap: LogTap) { Array(text.utf8).withUnsafeBytes { tap.append($0) } }

    @Test("lines of a route, in both formats, from the first question on; a longer name is another route")
    func lines() {
        let tap = LogTap()
        Self.append("{\"route\":\"a\",\"n\":0}\n", to: tap)
        #expect(tap.lines(ofRoute: "a") == [])
        Self.append("{\"route\":\"a\",\"n\":1}\n{\"route\":\"ab\"}\n", to: tap)
        Self.append("time info request event=access route=a user=x\ntime info request route=ab\nx route=a\n", to: tap)
        #expect(
            tap.lines(ofRoute: "a") == [
                "{\"route\":\"a\",\"n\":1}", "time info request event=access route=a user=x", "x route=a",
            ])
        #expect(tap.lines(ofRoute: "a", countMax: 1) == ["x route=a"] && tap.lines(ofRoute: "b") == [])
    }

    @Test("whole lines and a bounded number of bytes are kept: the latest")
    func bounds() {
        let tap = LogTap()
        _ = tap.lines(ofRoute: "a")
        for number in 0..<20_000 { Self.append("{\"route\":\"a\",\"number\":\(number)}\n", to: tap) }
        let lines = tap.lines(ofRoute: "a", countMax: .max)
        #expect(lines.count > 1000 && lines.count < 20_000 && lines.last == "{\"route\":\"a\",\"number\":19999}")
        #expect(lines.allSatisfy { $0.hasPrefix("{\"route\":\"a\",\"number\":") && $0.hasSuffix("}") })
    }
}
