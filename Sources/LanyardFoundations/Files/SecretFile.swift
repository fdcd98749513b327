import CLinux
import COpenSSL
import Glibc

/// A configured secret on disk: a password, a key, a token.
///
/// Symbolic links are followed, because Kubernetes mounts secrets through them. The file itself must be a regular one, because a pipe
/// could not be read again.
package enum SecretFile {
    /// Bytes of the largest secret: a password, a key.
    package static let bytesMax = 64 << 10
    /// Bytes of the largest credential of any kind: a JWT, the payload of a custom function.
    package static let credentialBytesMax = 1 << 20

    /// Why a secret cannot be used, with the remedy. Never holds a byte of the file. A type of its own, because the
    /// case decides whether the file is read again.
    package enum ReadError: Error, Equatable, Sendable {
        /// `open`, `fstat` or `read` failed; the value is `errno`.
        case system(CInt)
        case notRegular
        case empty
        case tooLarge(bytesMax: Int)
        /// The content is not valid for this secret; the text says what is.
        case unfit(String)
        /// The file system has not responded in time.
        case delayed
        /// No two reads in a row found the same content.
        case unsettled
        /// The process is stopping and reads no more files.
        case stopping

        /// The process or the machine lacks a resource for a while, or the process is stopping. This says nothing about the file.
        package var isShortage: Bool {
            switch self {
            case .system(let code): [EMFILE, ENFILE, ENOMEM, EAGAIN].contains(code)
            case .stopping: true
            default: false
            }
        }

        /// A later read may succeed although the file was not corrected.
        package var isTransient: Bool { isShortage || self == .delayed || self == .unsettled }

        /// One sentence with the remedy.
        package func message(path: String) -> String {
            switch self {
            case .system(ENOENT): "\(path) does not exist; create it, it is read again by itself"
            case .system(EACCES):
                "\(path) cannot be read (permission denied); let uid \(geteuid()) read it and enter its folders"
            case .system(let code): "\(path) cannot be read (\(Errno.text(of: code)))"
            case .notRegular: "\(path) is not a regular file"
            case .empty: "\(path) is empty; write the secret into it"
            case .tooLarge(let bytesMax) where bytesMax % (1 << 20) == 0:
                "\(path) is larger than \(bytesMax >> 20) MiB; such a file has at most that many bytes"
            case .tooLarge(let bytesMax):
                "\(path) is larger than \(bytesMax >> 10) KiB; a secret has at most that many bytes"
            case .unfit(let reason): "\(path) \(reason)"
            case .delayed: "\(path) has not been read within 5 s; check whether its file system responds"
            case .unsettled:
                "\(path) has not stayed the same for 200 ms within 5 s; write another file and rename it to this one"
            case .stopping: "\(path) is not read any more: Lanyard is stopping"
            }
        }
    }

    /// The result of a read.
    package struct Content: Sendable {
        /// The bytes of the file.
        package let secret: Secret
        /// Every user of the machine may read the file, which deserves a warning.
        package let isWorldReadable: Bool
        /// The kernel confirms that no process had the file open for writing while it was read. Asked only of a file that changed less than
        /// `FileSnapshot.Stamp.restingAge` ago. The kernel knows no writers of other machines, so a file of a shared file system may be
        /// believed too early, until the next read of its watch.
        package let isComplete: Bool
        /// The file begins with a byte order mark, which is not in `secret`.
        package var hasByteOrderMark = false
        /// The read began then: the file held this at that time or later.
        package let readAt: Instant
    }

    /// The secret of a text file: its content without a byte order mark and one final line end. Blocks as long as the disk does.
    ///
    /// - Throws: `.system` if the file cannot be opened or read; `.notRegular`, `.empty`, `.tooLarge`, or `.unfit` for a text in UTF-16, by
    ///   the operator's fault; `.unsettled` if it changed during the read, which can be repeated.
    package static func read(_ path: String, bytesMax: Int = bytesMax) throws(ReadError) -> Content {
        try readStamped(path, isText: true, bytesMax: bytesMax).content
    }

    /// The whole file, bit for bit. Blocks as long as the disk does.
    ///
    /// - Throws: as `read` does, except for `.unfit`.
    package static func readWhole(_ path: String, bytesMax: Int = bytesMax) throws(ReadError) -> Content {
        try readStamped(path, isText: false, bytesMax: bytesMax).content
    }

    /// The content with the stamp that the file had before and after the read.
    ///
    /// - Throws: `.unsettled` if the file changed during the read; `.unfit` for a text in UTF-16.
    static func readStamped(
        _ path: String, isText: Bool, bytesMax: Int
    ) throws(ReadError) -> (content: Content, stamp: FileSnapshot.Stamp) {
        FileProgress.note(path)
        defer { FileProgress.noteEnd() }
        let readAt = Instant.now
        // Without O_NONBLOCK, opening a pipe would wait for its writer.
        let raw = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard raw >= 0 else { throw .system(errno) }
        let descriptor = OwnedDescriptor(taking: raw)
        var status = stat()
        guard fstat(descriptor.raw, &status) == 0 else { throw .system(errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        guard status.st_size <= bytesMax else { throw .tooLarge(bytesMax: bytesMax) }
        // While the lease holds, a writer waits. So it is not taken on a file that is at rest, whose file system may hang.
        let stamp = FileSnapshot.Stamp(status)
        let isComplete = !stamp.isAtRest(at: .ofMachine) && lanyard_take_read_lease(descriptor.raw) == 0
        // All of the room is wiped afterwards: a file that grows meanwhile is read again. Some file systems say 0 of any file.
        let roomBytes = min(status.st_size == 0 ? Self.bytesMax : Int(status.st_size), bytesMax)
        let read = try Secret(capacity: roomBytes + 1) { room throws(ReadError) in
            let count = try descriptor.read(into: room) { ReadError.system($0) }
            guard count <= bytesMax else { throw .tooLarge(bytesMax: bytesMax) }
            // It has grown since.
            guard count <= roomBytes else { throw .unsettled }
            return count
        }
        guard fstat(descriptor.raw, &status) == 0 else { throw .system(errno) }
        guard FileSnapshot.Stamp(status) == stamp else { throw .unsettled }
        if isText, read.withBytes(SecretText.isWide) { throw .unfit(SecretText.wideMessage) }
        // Frees the room for the largest secret, because this one is kept for as long as a session lives.
        let secret = read.withBytes { bytes in
            let range = isText ? SecretText.rangeOfText(bytes) : 0..<bytes.count
            return Secret(copying: UnsafeRawBufferPointer(rebasing: bytes[range]))
        }
        guard secret.count > 0 else { throw .empty }
        let content = Content(
            secret: secret, isWorldReadable: status.st_mode & S_IROTH != 0,
            isComplete: isComplete, hasByteOrderMark: isText && read.withBytes(SecretText.hasByteOrderMark),
            readAt: readAt)
        return (content, stamp)
    }
}

/// A file of certificates in PEM, checked before any peer is trusted because of it.
package enum CertificateFile {
    /// Bytes of the largest one. Debian's file of all authorities has 220 KiB.
    private static let bytesMax = 4 << 20

    /// Whether a regular file holds at least one certificate and no block that the TLS library rejects.
    ///
    /// It is read as a secret, because the same file may hold the private key.
    package static func hasCertificate(_ path: String) -> Bool {
        guard let content = try? SecretFile.readWhole(path, bytesMax: bytesMax) else { return false }
        return PEMText.normalized(content.secret).withBytes {
            lanyard_openssl_count_certificates($0.baseAddress, CInt($0.count)) > 0
        }
    }

    /// Why a file without a certificate may have been taken for one with certificates; nil: unknown.
    package static func finding(_ path: String) -> String? {
        guard let content = try? SecretFile.readWhole(path, bytesMax: bytesMax) else { return nil }
        return content.secret.withBytes(PEMText.finding)
    }
}
