import LanyardFoundations

/// The unencrypted start of a file of format 2 (docs/reference/store-format.md). The seal of the first record authenticates it.
package struct LogHeader: Equatable {
    static let version = 2
    package static let byteCount = 96

    /// nil: the secret is a key.
    var scrypt: SealHeader.Scrypt?
    var keyID: [UInt8]
    /// New with each file. The file's own keys are derived from it.
    var salt: [UInt8]

    init(scrypt: SealHeader.Scrypt?, keyID: [UInt8], salt: [UInt8]) {
        self.scrypt = scrypt
        self.keyID = keyID
        self.salt = salt
    }

    /// A file that begins so has format 2. Another one is for `Sealing.open`, which says what it is.
    package static func begins(_ file: UnsafeRawBufferPointer) -> Bool {
        let magic = SealHeader.magic
        guard file.count >= SealHeader.kindOffset else { return false }
        return (0..<magic.utf8CodeUnitCount).allSatisfy { file[$0] == magic.utf8Start[$0] }
            && Int(file[SealHeader.versionOffset]) << 8 | Int(file[SealHeader.versionOffset + 1]) == version
    }

    /// - Throws: `damaged` with the finding, `unfit`.
    init(of file: UnsafeRawBufferPointer) throws(SealingError) {
        guard file.count >= Self.byteCount else { throw .damaged(SealHeader.truncated) }
        let isWhole = Self.begins(file) && file[SealHeader.nonceOffset..<Self.byteCount].allSatisfy { $0 == 0 }
        guard isWhole else { throw .damaged(SealHeader.notAsWritten) }
        keyID = Array(file[SealHeader.keyIDOffset..<SealHeader.saltOffset])
        salt = Array(file[SealHeader.saltOffset..<SealHeader.nonceOffset])
        scrypt = try SealHeader.scrypt(of: file)
    }

    /// `byteCount` bytes.
    var bytes: [UInt8] {
        SealHeader.start(of: Self.version, scrypt) + keyID + salt
            + [UInt8](repeating: 0, count: Self.byteCount - SealHeader.nonceOffset)
    }
}
