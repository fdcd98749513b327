import CLinux
import Foundation
import Glibc
import TestSupport

/// A name server that takes every question and never answers, and a way to start a program that asks no other one.
///
/// The program sees files of the test's own at /etc/resolv.conf, /etc/hosts and /etc/nsswitch.conf, mounted in a
/// namespace that is its alone.
final class SilentNameServer: Sendable {
    /// Port 53 is root's, too.
    static var isPossible: Bool { MountNamespace.isPossible }

    /// One for each, since several tests may run at once.
    private let address = "127.53.\(UInt8.random(in: 1...254)).\(UInt8.random(in: 1...254))"
    private let folder: TemporaryFolder
    private let descriptor: CInt

    init() throws {
        folder = try TemporaryFolder()
        try folder.write("resolv.conf", "nameserver \(address)\n", mode: 0o644)
        try folder.write("hosts", "127.0.0.1 localhost\n", mode: 0o644)
        try folder.write("nsswitch.conf", "hosts: files dns\n", mode: 0o644)
        descriptor = socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_port = UInt16(53).bigEndian
        place.sin_addr.s_addr = inet_addr(address)
        let bound = withUnsafePointer(to: &place) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard bound == 0 else { throw TestFailure("binding \(address):53: errno \(errno)") }
    }

    deinit { close(descriptor) }

    /// What to put before a program and its arguments. The process keeps its pid.
    var launcher: [String] {
        MountNamespace.launcher(["resolv.conf", "hosts", "nsswitch.conf"].map { (folder.file($0), "/etc/" + $0) })
    }

    /// Starts Lanyard with alice, whose identity service is the emulator, and with users whose identity service has a name that this server
    /// never resolves. `/protected` is forwarded for alice, `/lost` for the first of the others.
    func start(
        before emulator: EmulatorProcess, lostUsers: Int, admin: String = "off", under clock: TestClock? = nil
    ) async throws -> LanyardProcess {
        let lost = (0..<lostUsers).map { "  lost\($0): {identity: silent, login: {anonymous: {}}}" }
        return try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
              silent: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://identity.example:7490"}, unsafe_plain: true}
            users:
              alice:
                identity: demo
                login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}
            \(lost.joined(separator: "\n"))
            routes:
              - {name: alice, match: {path: /protected}, user: alice, upstream: "http://\(emulator.endpoint)"}
              - {name: lost, match: {path: /lost}, user: lost0, upstream: "http://\(emulator.endpoint)"}
            """, admin: admin, under: clock, launcher: launcher)
    }

    /// Questions that came since the last call, as many as the socket held.
    func questions() -> Int {
        var count = 0
        var byte: UInt8 = 0
        while recv(descriptor, &byte, 1, CInt(MSG_DONTWAIT)) >= 0 { count += 1 }
        return count
    }
}
