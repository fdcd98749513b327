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
        case unreadable(CInt)
    }

    /// The smallest configuration that works, in one line for an error message. Its token file may appear later.
    static let smallest =
        "{identities: {demo: {static: {token_file: token}}}, users: {alice: {identity: demo}}, "
        + "routes: [{upstream: \"http://127.0.0.1:9000\"}]}"

    /// The state of the file at `path`, as this process sees it now.
    static func state(of path: String) -> State {
        var status = stat()
        guard stat(path, &status) == 0 else {
            return errno == ENOENT || errno == ENOTDIR ? .missing : .unreadable(errno)
        }
        guard status.st_mode & S_IFMT != S_IFDIR else { return .notAFile }
        guard access(path, R_OK) == 0 else { return .unreadable(errno) }
        guard status.st_mode & S_IFMT != S_IFREG || status.st_size > 0 else { return .empty }
        return status.st_mode & S_IROTH != 0 ? .worldReadable : .fine
    }

    /// The bytes of a configuration file.
    ///
    /// - Throws: message and remedy if it cannot be read or is too large.
    static func read(_ path: String) throws(ConfigurationValue.ValueError) -> [UInt8] {
        let raw = open(path, O_RDONLY | O_CLOEXEC)
        guard raw >= 0 else { throw readError(errno) }
        let file = OwnedDescriptor(taking: raw)
        let bytes = try file.read(upTo: ConfigurationDocument.bytesMax + 1, failure: readError)
        guard bytes.count > ConfigurationDocument.bytesMax else { return bytes }
        throw .init(
            "larger than \(ConfigurationText.formatted(bytes: Int64(ConfigurationDocument.bytesMax)))",
            remedy: "name a configuration file")
    }

    private static func readError(_ code: CInt) -> ConfigurationValue.ValueError {
        .init(
            "cannot read the configuration file: \(Errno.text(of: code))",
            remedy: code == ENOENT ? "check --config or LANYARD_CONFIG" : "make it a file that this user can read")
    }
}
