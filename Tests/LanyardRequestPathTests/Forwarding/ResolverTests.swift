import Foundation
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath

@Suite struct ResolverTests {
    private static let address = SocketAddress(host: "127.0.0.1", port: 1)!

    @Test("names that no name server answers hold up no other name, seven of them at once")
    func silence() async throws {
        let (open, silent, completed) = (Milestone(), Tally(), Tally())
        let resolver = Resolver { host in
            if host.hasPrefix("silent") { open.wait(for: "the silent names may be answered") }
            return .success([Self.address])
        }
        // Threads that have come to rest are part of the case.
        for name in ["a", "b"] { resolver.resolve(name) { _ in completed.add() } }
        try await eventually("both are answered") { completed.value == 2 }
        for number in 0..<7 { resolver.resolve("silent\(number)") { _ in silent.add() } }
        for number in 0..<100 { resolver.resolve("name\(number)") { _ in completed.add() } }
        try await eventually("the others are answered") { completed.value == 102 }
        #expect(silent.value == 0)
        open.set()
        try await eventually("all are answered") { silent.value == 7 }
    }

    @Test("a name that no name server answers holds up no other one while a single thread rests")
    func oneAtRest() async throws {
        for _ in 0..<3 {
            let (open, silent, completed) = (Milestone(), Tally(), Tally())
            let resolver = Resolver { host in
                if host == "silent" { open.wait(for: "the silent name may be answered") }
                return .success([Self.address])
            }
            resolver.resolve("first") { _ in completed.add() }
            try await eventually("it is answered, and its thread rests") { completed.value == 1 }
            resolver.resolve("silent") { _ in silent.add() }
            resolver.resolve("other") { _ in completed.add() }
            try await eventually("the other is answered") { completed.value == 2 }
            #expect(silent.value == 0)
            open.set()
            try await eventually("all are answered") { silent.value == 1 }
        }
    }

    @Test("without a thread a name is answered at once, and asked anew when there are threads again")
    func noThread() async throws {
        let (hasThreads, completed) = (Milestone(), Tally())
        let failures = Guarded<[UpstreamError]>([])
        let resolver = Resolver(
            lookUp: { _ in .success([Self.address]) },
            start: { body in
                guard hasThreads.isSet else { return EAGAIN }
                Thread.detachNewThread(body)
                return 0
            })
        for _ in 0..<3 {
            resolver.resolve("name") { reply in
                if case .failure(let failure) = reply { failures.withLock { $0.append(failure) } }
            }
        }
        #expect(failures.withLock { $0 } == [.local(EAGAIN), .local(EAGAIN), .local(EAGAIN)])
        hasThreads.set()
        resolver.resolve("name") { reply in if case .success = reply { completed.add() } }
        try await eventually("it is answered") { completed.value == 1 }
    }

    @Test("a name for which no further thread can be had is taken by the next one that is free")
    func lastThread() async throws {
        let (open, completed, threads) = (Milestone(), Tally(), Tally())
        let resolver = Resolver(
            lookUp: { host in
                if host == "slow" { open.wait(for: "the slow name may be answered") }
                return .success([Self.address])
            },
            start: { body in
                guard threads.value == 0 else { return EAGAIN }
                threads.add()
                Thread.detachNewThread(body)
                return 0
            })
        for name in ["slow", "other"] { resolver.resolve(name) { _ in completed.add() } }
        #expect(completed.value == 0)
        open.set()
        try await eventually("both are answered") { completed.value == 2 }
    }

    @Test("one lookup per name at a time, for all callers")
    func shared() async throws {
        let (open, lookups, completed) = (Milestone(), Tally(), Tally())
        let resolver = Resolver { _ in
            lookups.add()
            open.wait(for: "the name may be answered")
            return .failure(.nameNotFound)
        }
        for _ in 0..<20 { resolver.resolve("same") { _ in completed.add() } }
        try await eventually("it is looked up") { lookups.value == 1 }
        open.set()
        try await eventually("all are answered") { completed.value == 20 }
        #expect(lookups.value == 1)
        resolver.resolve("same") { _ in completed.add() }
        try await eventually("it is looked up anew") { completed.value == 21 }
        #expect(lookups.value == 2)
    }
    @Test("lookups are counted by result, once however many callers wait")
    func counts() async throws {
        let (open, completed) = (Milestone(), Tally())
        let resolver = Resolver { host in
            open.wait(for: "the names may be answered")
            switch host {
            case "known": return .success([Self.address])
            case "silent": return .failure(.nameTimedOut)
            default: return .failure(.nameNotFound)
            }
        }
        func values() -> [String: Double] {
            Dictionary(uniqueKeysWithValues: resolver.samples.map { ($0.labels[0].value, $0.value) })
        }
        for name in ["known", "known", "unknown", "silent", "lost"] { resolver.resolve(name) { _ in completed.add() } }
        #expect(values() == ["success": 0, "failure": 0, "timeout": 0])
        open.set()
        try await eventually("all are answered") { completed.value == 5 }
        #expect(values() == ["success": 1, "failure": 2, "timeout": 1])
        let failing = Resolver(lookUp: { _ in .success([Self.address]) }, start: { _ in EAGAIN })
        failing.resolve("known") { _ in completed.add() }
        #expect(completed.value == 6)
        #expect(failing.samples.map(\.value) == [0, 1, 0])
    }
}
