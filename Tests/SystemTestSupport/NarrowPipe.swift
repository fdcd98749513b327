import Glibc
import TestSupport

/// A pipe that holds one page and is read when the test likes: until then a program that prints more than that stands still.
final class NarrowPipe: Sendable {
    let path: String
    private let raw: CInt

    init(in folder: TemporaryFolder) throws {
        path = folder.file("narrow")
        guard mkfifo(path, 0o600) == 0 else { throw TestFailure("mkfifo: errno \(errno)") }
        // Both ends, so that neither opening it nor the last writer's end changes anything.
        raw = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        guard raw >= 0, fcntl(raw, Self.setSize, 4096) == 4096 else { throw TestFailure("pipe: errno \(errno)") }
    }

    /// F_SETPIPE_SZ, which only _GNU_SOURCE shows.
    private static let setSize: CInt = 1031

    var isFull: Bool {
        var item = pollfd(fd: raw, events: Int16(POLLOUT), revents: 0)
        return poll(&item, 1, 0) == 0
    }

    /// Takes what is in it.
    func empty() { _ = take() }

    /// Takes what is in it, and says what it was.
    func take() -> String {
        var text = ""
        var room = [UInt8](repeating: 0, count: 4096)
        while case let count = read(raw, &room, room.count), count > 0 {
            text += String(decoding: room[..<count], as: UTF8.self)
        }
        return text
    }

    /// What `fill` puts in.
    static let filler: Character = "#"

    /// Leaves no room in it.
    func fill() {
        let page = [UInt8](repeating: Self.filler.asciiValue ?? 0, count: 4096)
        while write(raw, page, page.count) > 0 {}
    }

    deinit { close(raw) }
}
