/// The unencrypted start of a sealed file, which the seal authenticates (docs/reference/store-format.md has it byte by byte). Integers are
/// big-endian.
struct SealHeader: Equatable {
    /// How a passphrase becomes a key (RFC 7914).
    struct Scrypt: Hashable {
        /// Salt, 16 bytes.
        var salt: [UInt8]
        /// log2 of N.
        var costLog2: UInt8 = 15
        /// r.
        var blockSize: UInt8 = 8
        /// p.
        var parallelism: UInt8 = 1

        /// Accepted parameters. A forged header must neither exhaust the process's memory nor weaken the passphrase's protection.
        var isAcceptable: Bool {
            (14...15).contains(costLog2) && blockSize == 8 && (1...4).contains(parallelism)
        }
    }

    static let version = 1
    static let magic: StaticString = "LANYSTOR"
    static let byteCount = 88
    static let tagByteCount = 16
    static let scryptSaltByteCount = 16
    static let keyIDByteCount = 8
    static let saltByteCount = 32
    static let nonceByteCount = 12

    static let versionOffset = 8
    static let kindOffset = 10
    private static let scryptOffset = 12
    static let keyIDOffset = 32
    static let saltOffset = 40
    static let nonceOffset = 72
    private static let countOffset = 84

    /// nil: the secret is a key.
    var scrypt: Scrypt?
    var keyID: [UInt8]
    /// New on each write. The file's own key is derived from it.
    var salt: [UInt8]
    var nonce: [UInt8]
    /// Bytes of the ciphertext, without the tag.
    var textByteCount: Int

    init(scrypt: Scrypt?, keyID: [UInt8], salt: [UInt8], nonce: [UInt8], textByteCount: Int) {
        self.scrypt = scrypt
        self.keyID = keyID
        self.salt = salt
        self.nonce = nonce
        self.textByteCount = textByteCount
    }

    /// Reads the header of a whole file. The file's length must be the one that the header states.
    ///
    /// - Throws: `damaged` with the finding, `newerVersion`, `unfit`.
    init(of file: UnsafeRawBufferPointer) throws(SealingError) {
        let begins = min(file.count, Self.magic.utf8CodeUnitCount)
        guard (0..<begins).allSatisfy({ file[$0] == Self.magic.utf8Start[$0] }) else {
            throw .damaged("it is no store")
        }
        guard file.count >= Self.kindOffset else { throw .damaged(Self.truncated) }
        let version = Int(file[Self.versionOffset]) << 8 | Int(file[Self.versionOffset + 1])
        guard version <= LogHeader.version else { throw .newerVersion(version) }
        guard version == Self.version else { throw .damaged(Self.notAsWritten) }
        guard file.count >= Self.byteCount + Self.tagByteCount else { throw .damaged(Self.truncated) }
        textByteCount = (0..<4).reduce(0) { $0 << 8 | Int(file[Self.countOffset + $1]) }
        let whole = Self.byteCount + textByteCount + Self.tagByteCount
        guard file.count >= whole else { throw .damaged(Self.truncated) }
        guard file.count == whole else { throw .damaged("bytes follow its end") }
        keyID = Array(file[Self.keyIDOffset..<Self.saltOffset])
        salt = Array(file[Self.saltOffset..<Self.nonceOffset])
        nonce = Array(file[Self.nonceOffset..<Self.countOffset])
        scrypt = try Self.scrypt(of: file)
    }

    static let truncated = "it is truncated"
    static let notAsWritten = "it is not as it was written"

    /// What both formats say of the key.
    static func scrypt(of file: UnsafeRawBufferPointer) throws(SealingError) -> Scrypt? {
        let field = file[scryptOffset..<keyIDOffset]
        guard file[kindOffset + 1] == 0 else { throw .damaged(notAsWritten) }
        switch file[kindOffset] {
        case 1:
            guard field.allSatisfy({ $0 == 0 }) else { throw .damaged(notAsWritten) }
            return nil
        case 2:
            guard field[scryptOffset + 3] == 0 else { throw .damaged(notAsWritten) }
            let scrypt = Scrypt(
                salt: Array(field.dropFirst(4)), costLog2: field[scryptOffset], blockSize: field[scryptOffset + 1],
                parallelism: field[scryptOffset + 2])
            guard scrypt.isAcceptable else { throw .unfit("its scrypt parameters are beyond what Lanyard writes") }
            return scrypt
        default: throw .damaged(notAsWritten)
        }
    }

    /// `byteCount` bytes: the start of the file, which its seal authenticates beside the text.
    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.byteCount + textByteCount + Self.tagByteCount)
        bytes += Self.start(of: Self.version, scrypt) + keyID + salt + nonce
        bytes += stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: textByteCount >> $0) }
        return bytes
    }

    /// The bytes before the key id, which both formats have.
    static func start(of version: Int, _ scrypt: Scrypt?) -> [UInt8] {
        var bytes = Array(UnsafeBufferPointer(start: magic.utf8Start, count: magic.utf8CodeUnitCount))
        bytes += [0, UInt8(version), scrypt == nil ? 1 : 2, 0]
        if let scrypt {
            bytes += [scrypt.costLog2, scrypt.blockSize, scrypt.parallelism, 0] + scrypt.salt
        } else {
            bytes += [UInt8](repeating: 0, count: keyIDOffset - scryptOffset)
        }
        return bytes
    }
}
