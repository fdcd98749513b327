import Glibc

/// How long a test waits for what must happen. Its measure is granted time: what a busy machine takes away does not count.
///
/// Granted time is wall time less the time in which a thread of the machine waited for a processor (`some` of /proc/pressure/cpu), and at
/// least a twelfth of wall time. On a kernel without that file the limit is six times as long. A test that passes never waits for the
/// limit, so only failures get slower. `LANYARD_TEST_PATIENCE` multiplies it: deploy/test runs a failed test again with 3.
package struct Patience: Sendable {
    /// The text by which deploy/testing/events.py tells a late result from a wrong one.
    package static let marker = "patience ran out"
    /// Granted seconds, before the factors.
    private static let grantedSeconds = 60.0
    /// Wall time is at most so many times granted time.
    private static let slowestShare = 12.0
    /// The factor without a pressure file.
    private static let blindFactor = 6.0
    private static let pressureFile = "/proc/pressure/cpu"

    private static let factor: Double = {
        let chosen = getenv("LANYARD_TEST_PATIENCE").flatMap { Double(String(cString: $0)) } ?? 1
        return max(chosen, 1) * Double(Sanitizer.stretch)
    }()

    private let start = ContinuousClock.now
    private let waited = Patience.waitedSeconds()

    /// Begins now.
    package init() {}

    /// Whether its granted time has passed. Costs a system call only when so much wall time has passed, too.
    package var isExhausted: Bool { grantedRest <= 0 }

    /// Granted seconds that are left; 0 or less: none.
    private var grantedRest: Double {
        let limit = Self.grantedSeconds * Self.factor
        let wall = wallSeconds
        guard wall >= limit else { return limit - wall }
        return Self.rest(limit: limit, wall: wall, waitedAtStart: waited, waitedNow: Self.waitedSeconds())
    }

    /// The rule itself: all figures in seconds. Without figures of pressure (nil) the limit counts in wall time and is `blindFactor` times
    /// as long.
    static func rest(limit: Double, wall: Double, waitedAtStart: Double?, waitedNow: Double?) -> Double {
        guard let waitedAtStart, let waitedNow else { return limit * blindFactor - wall }
        return limit - max(wall - (waitedNow - waitedAtStart), wall / slowestShare)
    }

    /// How long a call that can be repeated may wait before it looks at the patience again, in milliseconds.
    package var pollMilliseconds: CInt { CInt(min(max(grantedRest * 1000, 1), 1000)) }

    /// What to throw when it is exhausted.
    ///
    /// - Parameter what: what did not happen.
    package func failure(_ what: String) -> TestFailure {
        let rounded = (wallSeconds * 10).rounded() / 10
        return TestFailure("\(Self.marker) after \(rounded) s: \(what)")
    }

    private var wallSeconds: Double { (ContinuousClock.now - start) / .seconds(1) }

    /// How long, since the boot, some thread has waited for a processor; nil: the kernel does not say.
    ///
    /// The first line of the file is `some avg10=… avg60=… avg300=… total=MICROSECONDS`.
    private static func waitedSeconds() -> Double? {
        let descriptor = open(pressureFile, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = read(descriptor, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return waitedSeconds(in: String(decoding: buffer[..<count], as: UTF8.self))
    }

    static func waitedSeconds(in text: String) -> Double? {
        guard let line = text.split(separator: "\n").first, line.hasPrefix("some "),
            let total = line.split(separator: " ").first(where: { $0.hasPrefix("total=") }),
            let microseconds = Double(total.dropFirst("total=".count))
        else { return nil }
        return microseconds / 1e6
    }
}
