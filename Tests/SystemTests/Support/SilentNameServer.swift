import Foundation
import Glibc
import TestSupport

/// A name server that takes every question and never answers, and a way to start a program that asks no other one.
///
/// The program sees files of the test's own at /etc/resolv.conf, /etc/hosts and /etc/nsswitch.conf, mounted in a namespace that is its alone.
final class SilentNameServer: Sendable {
    /// Port 53 and mounts are root's; a container may forbid the namespace even to root.
    static let isPossible: Bool = {
        guard getuid() == 0, let probe = try? ServerProcess("/usr/bin/unshare", ["-m", "/bin/true"]) else {
            return false
        }
        while probe.exit == nil { usleep(10_000) }
        return probe.exit == .code(0)
    }()

    private static let address = "127.53.53.53"
    private let folder: TemporaryFolder
    private let descriptor: CInt

    init() throws {
        folder = try TemporaryFolder()
        try folder.write("resolv.conf", "nameserver \(Self.address)\n", mode: 0o644)
        try folder.write("hosts", "127.0.0.1 localhost\n", mode: 0o644)
        try folder.write("nsswitch.conf", "hosts: files dns\n", mode: 0o644)
        descriptor = socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(53).bigEndian
        address.sin_addr.s_addr = inet_addr(Self.address)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard bound == 0 else { throw TestFailure("binding \(Self.address):53: errno \(errno)") }
    }

    deinit { close(descriptor) }

    /// What to put before a program and its arguments. The process keeps its pid.
    var launcher: [String] {
        let mounts = ["resolv.conf", "hosts", "nsswitch.conf"]
            .map { "mount --bind \(folder.file($0)) /etc/\($0)" }.joined(separator: " && ")
        return ["/usr/bin/unshare", "-m", "/bin/sh", "-c", "\(mounts) && exec \"$@\"", "sh"]
    }

    /// Questions that came since the last call, as many as the socket held.
    func questions() -> Int {
        var count = 0
        var byte: UInt8 = 0
        while recv(descriptor, &byte, 1, CInt(MSG_DONTWAIT)) >= 0 { count += 1 }
        return count
    }
}
