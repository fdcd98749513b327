import FlyingFox
import FlyingSocks
import Glibc

/// FlyingFox's pool of sockets, with TCP_NODELAY on each of them.
///
/// FlyingFox writes a response's head and its body by two calls. On a kept connection the kernel would hold the body back until the client
/// has acknowledged the head, which takes it about 40 ms.
struct NoDelayPool<Base: AsyncSocketPool>: AsyncSocketPool {
    let base: Base

    func prepare() async throws { try await base.prepare() }

    func run() async throws { try await base.run() }

    /// The listening socket waits first. What it accepts inherits the option.
    func suspendSocket(_ socket: Socket, untilReadyFor events: Socket.Events) async throws {
        var isOn: CInt = 1
        // A unix socket has no such option, and needs none.
        setsockopt(socket.file.rawValue, CInt(IPPROTO_TCP), TCP_NODELAY, &isOn, socklen_t(MemoryLayout<CInt>.size))
        try await base.suspendSocket(socket, untilReadyFor: events)
    }
}
