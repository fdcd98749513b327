import Foundation
import TestSupport
import Testing

/// Takes all free descriptors from a running process.
enum Starving {
    /// The lowest free number is beyond the limit from now on: nothing new can be opened.
    static func starve(_ lanyard: LanyardProcess) async throws {
        let used = try descriptors(of: lanyard)
        try await limit(lanyard, try #require((0...used.count).first { !used.contains($0) }))
    }

    /// Sets the soft limit of a running process.
    static func limit(_ lanyard: LanyardProcess, _ count: Int) async throws {
        let prlimit = try ServerProcess("/usr/bin/prlimit", ["--pid", "\(lanyard.process.pid)", "--nofile=\(count):"])
        #expect(try await prlimit.waitForExit() == .code(0))
    }

    private static func descriptors(of lanyard: LanyardProcess) throws -> Set<Int> {
        let names = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(lanyard.process.pid)/fd")
        return Set(names.compactMap { Int($0) })
    }
}
