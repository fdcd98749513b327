import CLinux
import Glibc
import TestSupport
import Testing
import TornSockets

/// The means that tears, since every other test of this program shares its calls.
@Suite(.enabled(if: !Sanitizer.isThread, "the thread sanitizer needs the calls that tear"))
struct TornSocketsTests {
    /// Numbers from here on are rarely another test's.
    private static let numbers: CInt = 800

    @Test("a closed descriptor is torn no more, whatever gets its number next")
    func closed() throws {
        let server = try RawServer { _ in .response() }
        guard case .tcp(let port) = server.endpoint else { throw TestFailure("not over TCP: \(server.endpoint)") }
        let single = lanyard_tear(most: 1, cut: -1), whole = lanyard_tear(most: 0, cut: -1)
        lanyard_tear_port(port, 0, single, single)
        defer { lanyard_tear_port(port, 0, whole, whole) }
        let epoll = epoll_create1(0)
        defer { close(epoll) }
        for _ in 0..<20 {
            let torn = try Self.connect(port)
            var event = epoll_event()
            #expect(epoll_ctl(epoll, EPOLL_CTL_ADD, torn, &event) == 0)
            #expect(Self.send(torn) == 1)
            close(torn)
            let next = try Self.connect(port)
            defer { close(next) }
            guard next == torn else { continue }
            #expect(Self.send(next) == 10)
            return
        }
        Issue.record("the number never came again")
    }

    /// A connection whose number is the least free one from `numbers` on.
    private static func connect(_ port: UInt16) throws -> CInt {
        let raw = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(raw) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(raw, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        let number = fcntl(raw, F_DUPFD, numbers)
        guard status == 0, number >= 0 else { throw TestFailure("connect: errno \(errno)") }
        return number
    }

    private static func send(_ raw: CInt) -> Int {
        Glibc.send(raw, Array("GET / HTTP".utf8), 10, CInt(MSG_NOSIGNAL))
    }
}
