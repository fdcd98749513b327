import Testing

@testable import TestSupport

@Suite struct PatienceTests {
    @Test(
        "waiting for a processor does not count, but a twelfth of the time always does; without figures the limit is six times as long",
        arguments: [
            (60.0, 60.0, 0.0, 0.0, 0.0), (60, 90, 100, 140, 10), (60, 720, 0, 720, 0), (60, 360, 0, 360, 30),
        ])
    func rest(limit: Double, wall: Double, before: Double, after: Double, rest: Double) {
        #expect(Patience.rest(limit: limit, wall: wall, waitedAtStart: before, waitedNow: after) == rest)
    }

    @Test("a machine without the pressure file gets six times the limit")
    func blind() {
        #expect(Patience.rest(limit: 60, wall: 359, waitedAtStart: nil, waitedNow: 7) == 1)
        #expect(Patience.rest(limit: 60, wall: 361, waitedAtStart: 7, waitedNow: nil) == -1)
    }

    @Test(
        "the file's figure is the total of its first line, in microseconds",
        arguments: [
            ("some avg10=0.63 avg60=1.13 avg300=0.43 total=1793385\nfull avg10=0.00 total=7\n", 1.793385), ("", nil),
            ("full avg10=0.00 total=7\n", nil), ("some avg10=0.63\n", nil), ("some total=x\n", nil),
        ] as [(String, Double?)])
    func figures(text: String, seconds: Double?) { #expect(Patience.waitedSeconds(in: text) == seconds) }

    @Test("a failure carries the marker that deploy/testrun.py looks for, and what did not happen")
    func marker() {
        let text = "\(Patience().failure("the sky falls"))"
        #expect(text.hasPrefix("patience ran out after ") && text.hasSuffix(" s: the sky falls"))
    }
}
