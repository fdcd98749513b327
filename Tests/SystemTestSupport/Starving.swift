import Foundation
import Glibc
import TestSupport
import Testing

/// Takes all free descriptors from a running process.
enum Starving {
    /// The lowest free number is beyond the limit from now on, and each number that comes free later is below it.
    ///
    /// The caller's last connections must be gone on the other side, too: else their descriptors come free afterwards.
    ///
    /// - Returns: the clients of `fillHoles`.
    static func starve(_ lanyard: LanyardProcess) async throws -> [RawClient] {
        let fillers = try await fillHoles(of: lanyard)
        try await closeRest(of: lanyard)
        return fillers
    }

    /// The lowest free number is beyond the limit from now on: nothing new can be opened.
    static func closeRest(of lanyard: LanyardProcess) async throws {
        try limit(lanyard, try lowestFree(try await settledDescriptors(of: lanyard)))
    }

    /// Takes each number that is free below one in use, such as that of a file that was open while the health listener took its reserve.
    /// What a process closes above such a number is no use to it once it starves.
    ///
    /// - Returns: the clients whose connections have the numbers now. They stay open as long as the process starves.
    static func fillHoles(of lanyard: LanyardProcess) async throws -> [RawClient] {
        var fillers: [RawClient] = []
        while true {
            let used = try await settledDescriptors(of: lanyard)
            guard try lowestFree(used) < used.count else { return fillers }
            try #require(fillers.count < holesMax, "its descriptors never become contiguous")
            let data = lanyard.data
            fillers.append(
                try {
                    let client = try RawClient(data)
                    #expect(try client.exchange("OPTIONS", "*", host: "\(data)").status == 200)
                    return client
                }())
        }
    }

    /// Far more free numbers than connections that a probe can leave.
    private static let holesMax = 32

    private static func lowestFree(_ used: Set<Int>) throws -> Int {
        try #require((0...used.count).first { !used.contains($0) })
    }

    /// Those that are open while nothing is in progress.
    private static func settledDescriptors(of lanyard: LanyardProcess) async throws -> Set<Int> {
        var used = try descriptors(of: lanyard)
        try await eventually("its descriptors stay the same") {
            // A probe's connection that its client has closed may still be open here. A file that a watch reads may be, too.
            try await lanyard.process.settle()
            let former = used
            used = try descriptors(of: lanyard)
            return used == former
        }
        return used
    }

    private typealias PRLimit =
        @convention(c) (pid_t, CInt, UnsafePointer<rlimit>?, UnsafeMutablePointer<rlimit>?) -> CInt

    /// Sets the soft limit of a running process, which has it when this returns.
    static func limit(_ lanyard: LanyardProcess, _ count: Int) throws {
        // Glibc's module hides prlimit(2), a GNU extension.
        let prlimit = unsafeBitCast(try #require(dlsym(nil, "prlimit")), to: PRLimit.self)
        let (pid, kind) = (lanyard.process.pid, CInt(RLIMIT_NOFILE.rawValue))
        var limits = rlimit()
        try #require(prlimit(pid, kind, nil, &limits) == 0)
        limits.rlim_cur = rlim_t(count)
        try #require(prlimit(pid, kind, &limits, nil) == 0)
    }

    private static func descriptors(of lanyard: LanyardProcess) throws -> Set<Int> {
        let names = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(lanyard.process.pid)/fd")
        return Set(names.compactMap { Int($0) })
    }
}
