import Glibc
import LanyardFoundations

/// Checks and reads files that a configuration names. It keeps no file open.
enum ConfigurationFile {
    enum State: Equatable {
        case fine
        case worldReadable
        case empty
        case missing
        case notAFile
        /// A pipe, a socket or a device, which could not be read again.
        case notRegular
        case unreadable(CInt)
    }

    /// The smallest configuration that works, in one line for an error message. Its token file may appear later.
    static let smallest =
        "{identities: {demo: {static: {token_file: token}}}, users: {alice: {identity: demo}}, "
        + "routes: [{upstream: \"http://127.0.0.1:9000\"}]}"

    /// The state of the file at `path`, as this process sees it now.
    static func state(of path: String) -> State {
        FileProgress.note(path)
        defer { FileProgress.noteEnd() }
        var status = stat()
        guard stat(path, &status) == 0 else {
            return errno == ENOENT || errno == ENOTDIR ? .missing : .unreadable(errno)
        }
        guard status.st_mode & S_IFMT != S_IFDIR else { return .notAFile }
        guard status.st_mode & S_IFMT == S_IFREG else { return .notRegular }
        guard access(path, R_OK) == 0 else { return .unreadable(errno) }
        guard status.st_size > 0 else { return .empty }
        return status.st_mode & S_IROTH != 0 ? .worldReadable : .fine
    }

    /// The bytes of a configuration file.
    ///
    /// - Parameter waitsForPipe: waits for what a pipe, a terminal or a device brings, which can be read once. Else it is refused.
    /// - Throws: message and remedy if it cannot be read or is too large.
    static func read(_ path: String, waitsForPipe: Bool) throws(ConfigurationValue.ValueError) -> [UInt8] {
        FileProgress.note(path)
        defer { FileProgress.noteEnd() }
        // Without O_NONBLOCK, opening a pipe would wait for its writer.
        let raw = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard raw >= 0 else { throw readError(errno) }
        let file = OwnedDescriptor(taking: raw)
        var status = stat()
        guard fstat(file.raw, &status) == 0 else { throw readError(errno) }
        if status.st_mode & S_IFMT != S_IFREG, status.st_mode & S_IFMT != S_IFDIR {
            guard waitsForPipe else {
                throw .init("not a regular file, and could not be read again", remedy: "name a configuration file")
            }
            try waitForInput(of: file.raw)
        }
        let bytes = try file.read(upTo: ConfigurationDocument.bytesMax + 1, failure: readError)
        guard bytes.count > ConfigurationDocument.bytesMax else { return bytes }
        throw .init(
            "larger than \(ConfigurationText.formatted(bytes: Int64(ConfigurationDocument.bytesMax)))",
            remedy: "name a configuration file")
    }

    /// Waits for the first byte, and has reads wait for further ones.
    private static func waitForInput(of raw: CInt) throws(ConfigurationValue.ValueError) {
        var wanted = pollfd(fd: raw, events: Int16(POLLIN), revents: 0)
        while poll(&wanted, 1, -1) < 0 { guard errno == EINTR else { throw readError(errno) } }
        guard fcntl(raw, F_SETFL, 0) == 0 else { throw readError(errno) }
    }

    private static func readError(_ code: CInt) -> ConfigurationValue.ValueError {
        .init(
            "cannot read the configuration file: \(Errno.text(of: code))",
            remedy: code == ENOENT ? "check --config or LANYARD_CONFIG" : "make it a file that this user can read")
    }
}
