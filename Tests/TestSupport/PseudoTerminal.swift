import Foundation
import Glibc
import LanyardFoundations

/// A terminal whose keys a test presses and whose screen it reads. Hangs up on `hangUp()` and on `deinit`.
package final class PseudoTerminal: Sendable {
    private struct State {
        /// As they came: a piece may end in the middle of a character.
        var bytes: [UInt8] = []
        var isEnding = false
        var isClosed = false
    }

    /// The device that a process opens.
    package let path: String
    private let keyboard: CInt
    /// Keeps the device open, so that its settings outlive a process that uses it.
    private let device: CInt
    private let state: Shared
    private final class Shared: Sendable { let box = Guarded(State()) }

    /// - Parameter columns: its width; 0: it has none.
    package init(columns: Int = 0) throws {
        var (keyboard, device): (CInt, CInt) = (-1, -1)
        var size = winsize(ws_row: 0, ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
        guard openpty(&keyboard, &device, nil, nil, &size) == 0 else { throw TestFailure("openpty: errno \(errno)") }
        for descriptor in [keyboard, device] { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        var name = [CChar](repeating: 0, count: 256)
        guard ttyname_r(device, &name, name.count) == 0 else { throw TestFailure("ttyname_r: errno \(errno)") }
        path = String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        (self.keyboard, self.device) = (keyboard, device)
        let state = Shared()
        self.state = state
        let (screen, kept) = (keyboard, device)
        Thread.detachNewThread {
            Self.read(screen, into: state)
            close(screen)
            close(kept)
            state.box.withLock { $0.isClosed = true }
        }
    }

    /// Hangs up: the process gets SIGHUP, and its reads end.
    package func hangUp() async throws {
        state.box.withLock { $0.isEnding = true }
        try await eventually("the terminal is closed") { state.box.withLock { $0.isClosed } }
    }

    deinit { state.box.withLock { $0.isEnding = true } }

    /// Reads what is shown until the terminal ends.
    private static func read(_ screen: CInt, into state: Shared) {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while !state.box.withLock({ $0.isEnding }) {
            var entry = pollfd(fd: screen, events: Int16(POLLIN), revents: 0)
            guard poll(&entry, 1, 20) > 0 else { continue }
            let count = Glibc.read(screen, &buffer, buffer.count)
            guard count > 0 else { return }
            state.box.withLock { $0.bytes += buffer[..<count] }
        }
    }

    /// All that was shown so far, with line ends as the terminal writes them.
    package var screen: String { state.box.withLock { String(decoding: $0.bytes, as: UTF8.self) } }

    /// Whether typed characters are shown.
    package var echoes: Bool {
        var settings = termios()
        tcgetattr(device, &settings)
        return settings.c_lflag & tcflag_t(ECHO) != 0
    }

    /// Presses keys. `\u{3}` is ^C, `\u{4}` ^D, `\u{1a}` ^Z, `\n` the return key.
    package func type(_ keys: String) throws { try type(bytes: Array(keys.utf8)) }

    /// The same for a terminal that does not send UTF-8.
    package func type(bytes: [UInt8]) throws {
        guard write(keyboard, bytes, bytes.count) == bytes.count else { throw TestFailure("typing: errno \(errno)") }
    }

    /// Waits until the screen shows a text.
    package func shows(_ text: String) async throws {
        try await eventually("the terminal shows \(text); it shows: \(screen)") { screen.contains(text) }
    }
}
