import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Ten minutes in which everything around Lanyard lies, hangs, changes and runs out; it has to come to rest as it began.
@Suite(
    .serialized,
    .enabled("only root sees the descriptors of a process that is not dumpable") { DescriptorTable.isReadable })
struct LongSoakTests {
    /// What the process holds at rest.
    private struct Rest {
        var residentBytes: Int
        /// Without the upstream connections that are kept.
        var descriptors: Int
        var threads: Int
    }

    /// `LANYARD_SOAK_SECONDS` makes it shorter or longer.
    private static let seconds = getenv("LANYARD_SOAK_SECONDS").flatMap { Int(String(cString: $0)) } ?? 600
    /// Requests and health probes of a storm: about 45 s on a fast machine.
    private static let stormAnswers = 2250
    private static let growthMax = 4 << 20
    /// Kept connections of identity calls, and readers of files that have just ended.
    private static let descriptorsMore = 8
    private static let healthMax = 0.1

    @Test(
        "no descriptor, parked request or memory leaks, no token goes to a wrong upstream, health answers within 100 ms"
    )
    func soak() async throws {
        let bench = try await SoakBench.start()
        try await bench.untilCalm()
        let surroundings = try [getpid(), bench.emulator.process.pid].flatMap(Self.threads)
        let probe = SoakProbe(bench.lanyard.health, findings: bench.findings)
        // What stands for other machines may not take the processor from Lanyard: on two CPUs health would wait for the clients, not for
        // Lanyard. Threads that are made later by these have their priority.
        for thread in surroundings { setpriority(__priority_which_t(PRIO_PROCESS.rawValue), id_t(thread), 5) }
        let end = ContinuousClock.now + .seconds(Self.seconds)
        var rests: [Rest] = []
        var round: UInt64 = 0
        while ContinuousClock.now < end || rests.count < 2 {
            round += 1
            try await storm(bench, seed: round)
            rests.append(try await rest(bench))
            let last = rests[rests.count - 1]
            print(
                "soak, round \(round): resident \(last.residentBytes), descriptors \(last.descriptors),",
                "threads \(last.threads), slowest health answer \(probe.slowest) s, \(probe.slowestPath)")
        }
        probe.stop()
        try await eventually("the probe ends") { !probe.isRunning }
        print("soak: \(bench.findings.summary)")
        try bench.keepLog()
        try await expectSound(bench, rests, probe)
        // The end waits for no file.
        try HangingFiles.hang(bench.folder.file("fixed"))
        #expect(try await bench.lanyard.process.terminate() == .code(143))
    }

    private static func threads(of process: pid_t) throws -> [pid_t] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task").compactMap { pid_t($0) }
    }

    /// Clients, operators and all troubles at once.
    private func storm(_ bench: SoakBench, seed: UInt64) async throws {
        let clients = SoakClients(8, seed: seed &* 1000, to: bench.lanyard.data, findings: bench.findings)
        defer { clients.stop() }
        for upstream in bench.upstreams { upstream.dishonesty.add() }
        let trouble = SoakTrouble(bench: bench, random: SoakRandom(seed))
        let end = bench.findings.answers + Self.stormAnswers
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await trouble.files(untilAnswer: end) }
            group.addTask { try await trouble.identity(untilAnswer: end) }
            group.addTask { try await trouble.descriptors(untilAnswer: end) }
            group.addTask { try await trouble.operators(untilAnswer: end) }
            try await group.waitForAll()
        }
        clients.stop()
        try await trouble.end()
        for upstream in bench.upstreams { upstream.dishonesty.add(-1) }
        try await eventually("the clients have gone") { clients.running == 0 }
    }

    private func rest(_ bench: SoakBench) async throws -> Rest {
        // A login that made a session and brought no token is followed by the next one after 30, 60, 120 s at most; a
        // storm has time for three of them.
        try await bench.untilCalm()
        let kept = try await bench.metric("lanyard_upstream_connections") { $0["state"] == "open" }
        return Rest(
            residentBytes: bench.lanyard.process.residentBytes, descriptors: bench.descriptors.count - Int(kept),
            threads: bench.lanyard.process.threadCount)
    }

    private func expectSound(_ bench: SoakBench, _ rests: [Rest], _ probe: SoakProbe) async throws {
        let findings = bench.findings
        #expect(findings.faults == [])
        #expect(bench.tokens.expiredUses(issued: try await bench.emulator.issued()) == [])
        let (first, last) = (rests[0], rests[rests.count - 1])
        #expect(last.residentBytes - first.residentBytes < Self.growthMax, "\(rests.map(\.residentBytes))")
        #expect(last.descriptors <= first.descriptors + Self.descriptorsMore, "\(rests.map(\.descriptors))")
        #expect(probe.failures == [])
        #expect(
            probe.slowest < Self.healthMax,
            "the slowest of \(probe.count) answers, \(probe.slowestPath), took \(probe.slowest) s")
        #expect(try await bench.metric("lanyard_internal_errors_total") == 0)
        let log = bench.lanyard.process.log
        for secret in [SoakBench.password, "fixed-token", "aaaaaaaa", "eyJ"] {
            #expect(!log.contains(secret), "the log holds \(secret)")
        }
        #expect(log.contains("Too many open files"))
        // It was a storm: each trouble has come, and most requests were still served.
        for what in [
            "upstream lies", "calls of the lying identity", "identity troubles", "shortages of descriptors",
            "files that hung", "files changed in place", "files swapped", "files gone or wrong", "admin calls 2xx",
            "admin calls 4xx", "answers 2xx", "answers 4xx", "answers 5xx",
        ] {
            #expect(findings.number(of: what) >= rests.count, "\(what)")
        }
    }
}
