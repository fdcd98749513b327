import Glibc
import LanyardFoundations

/// Asks at the terminal for one line that is no secret.
package enum LinePrompt {
    /// The kernel gives no longer line at once (termios(3), canonical mode).
    private static let bytesMax = 4096

    /// What the operator has done.
    package enum Reply: Equatable, Sendable {
        /// A line without its end and without blanks around it.
        case line(String)
        /// Bytes that are no UTF-8, or characters that no value has.
        case unreadable
        /// The input has ended.
        case end
    }

    /// Reads a line from standard input, which must be a terminal.
    ///
    /// - Parameter prompt: printable ASCII, because a terminal may show nothing else.
    package static func read(_ prompt: String) -> Reply {
        write(prompt)
        var room = [UInt8](repeating: 0, count: bytesMax)
        while true {
            let count = room.withUnsafeMutableBytes { Glibc.read(STDIN_FILENO, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                // Another process has made the shared terminal non-blocking.
                var entry = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
                poll(&entry, 1, -1)
                continue
            }
            // Without its end the line was ended by ^D: what was typed is no whole reply.
            guard count > 0, room[count - 1] == UInt8(ascii: "\n") else {
                write("\n")
                return .end
            }
            guard let text = String(validating: room[..<(count - 1)], as: UTF8.self),
                text.unicodeScalars.allSatisfy({ $0.value >= 32 && $0.value != 127 || $0 == "\t" })
            else { return .unreadable }
            return .line(trimmed(text))
        }
    }

    private static func trimmed(_ text: String) -> String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        var rest = text.drop(while: isBlank)
        while let last = rest.last, isBlank(last) { rest.removeLast() }
        return String(rest)
    }

    /// To standard error if it is a terminal, else to the terminal of standard input.
    private static func write(_ text: String) {
        let descriptor = isatty(STDERR_FILENO) == 1 ? STDERR_FILENO : STDIN_FILENO
        var text = text
        text.withUTF8 { _ = Glibc.write(descriptor, $0.baseAddress, $0.count) }
    }
}
