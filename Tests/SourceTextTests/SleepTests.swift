import TestSupport
import Testing

/// Tests wait for events, not for time (CONTRIBUTING.md, rule 2). Each sleep that stays is listed with its reason.
@Suite struct SleepTests {
    /// How many lines of a file may sleep, by its path below `Tests`.
    private static let allowed: [String: (lines: Int, reason: String)] = [
        // Suites.
        "LanyardFoundationsTests/EventLoopTests.swift": (1, "a report is old after a time of the machine's clock"),
        "SystemSessionTests/Soak/SoakProbe.swift": (1, "the pace of the soak's probe, which all else is measured by"),
        "TestSupportTests/GrowingPoolTests.swift": (2, "the sleep of a task is the subject"),
        // Programs that a suite starts, whose sleep is the subject.
        "TestSupportTests/TestClockTests.swift": (6, "programs under the clock, which passes their time"),
        "TestSupportTests/TestRunTests.swift": (3, "runs that stand still, or hold a descriptor"),
        // What the suites share.
        "SystemTestSupport/ClosedLoop.swift": (1, "the pace of clients"),
        "SystemTestSupport/CrashDriver.swift": (1, "a kill at any moment of an operation"),
        "SystemTestSupport/LoyalClients.swift": (1, "the pace of clients"),
        "SystemTestSupport/SlowSenders.swift": (1, "a byte a second"),
        "SystemTestSupport/TLSUpstream.swift": (1, "a server in Python looks at a file"),
        "TestSupport/Eventually.swift": (2, "between two looks"),
        "TestSupport/FaultGate.swift": (3, "delays of a network, and a look at a connection's end"),
        "TestSupport/FloodingService.swift": (1, "between two looks"),
        "TestSupport/RawServer.swift": (1, "the step `pause`"),
        "TestSupport/RawSocket.swift": (1, "between two tries without a descriptor"),
        "TestSupport/ServerProcess+Settled.swift": (1, "between two looks"),
        "TestSupport/ServerProcess.swift": (1, "between two looks"),
        "TestSupport/TemporaryFolder.swift": (1, "between two tries"),
        "TestSupport/TestClock.swift": (1, "between two looks"),
    ]

    /// The numbers of the lines that sleep.
    private static func sleeps(in text: String) -> [Int] {
        // Of usleep(3), nanosleep(2), Thread, Task and Python, too.
        SourceFiles.codeLines(of: text).compactMap { number, line in
            SourceFiles.holds(String(line), "sleep(") ? number : nil
        }
    }

    @Test("no test sleeps, except for the listed lines")
    func sleeps() throws {
        var texts = try SourceFiles.texts(below: "Tests")
        texts["Tests/SourceTextTests/SleepTests.swift"] = nil
        var counts: [String: Int] = [:]
        for (path, text) in texts {
            let (name, numbers) = (String(path.dropFirst("Tests/".count)), Self.sleeps(in: text))
            guard !numbers.isEmpty else { continue }
            counts[name] = numbers.count
            let most = Self.allowed[name]?.lines ?? 0
            #expect(numbers.count <= most, "\(path) sleeps in lines \(numbers), \(most) are listed: wait for an event")
        }
        for (name, entry) in Self.allowed {
            #expect(counts[name] == entry.lines, "\(name) has fewer sleeps than are listed")
        }
    }

    @Test(
        "a planted sleep is found",
        arguments: [
            ("        try await Task.sleep(for: .seconds(1))", true), ("    Thread.sleep(forTimeInterval: 0.1)", true),
            ("usleep(1_000)", true), ("time.sleep(0.05)", true),
            ("// Task.sleep(for: .seconds(1))", false), ("case .sleepsAfterCounting: return", false),
        ])
    func planted(line: String, isFound: Bool) {
        #expect(Self.sleeps(in: line).isEmpty != isFound)
    }
}
