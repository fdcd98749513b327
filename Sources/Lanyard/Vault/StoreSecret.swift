import Glibc

/// What the store is sealed with: a key, or a passphrase that scrypt turns into one.
package struct StoreSecret: Sendable {
    package enum Kind: Equatable, Sendable { case key, passphrase }

    /// Fewer bytes are no key; a passphrase has no such bound, since scrypt is there for that.
    package static let keyBytesMin = 32

    package let kind: Kind
    package let secret: Secret

    package init(_ kind: Kind, _ secret: Secret) {
        self.kind = kind
        self.secret = secret
    }

    /// Reads the file that the configuration names. Blocks as long as the disk does.
    ///
    /// A key's bytes are taken as they are: one final newline is cut only if all others are printable ASCII, since what a generator of
    /// random bytes made may end in 0x0a. A passphrase's final newline is none of it.
    ///
    /// - Throws: `unfit`, with path and remedy.
    package static func read(_ file: StoreSettings.KeyFile) throws(StoreError) -> StoreSecret {
        do throws(SecretFile.ReadError) {
            switch file {
            case .key(let path):
                let key = withoutTextNewline(try SecretFile.readWhole(path).secret)
                guard key.count >= keyBytesMin else {
                    throw .unfit(
                        "holds \(key.count) bytes, and a key has at least \(keyBytesMin); make one with head -c 32 /dev/urandom"
                    )
                }
                return StoreSecret(.key, key)
            case .passphrase(let path):
                return StoreSecret(.passphrase, try SecretFile.read(path).secret)
            }
        } catch {
            let message =
                error == .system(ENOENT)
                ? "\(file.path) does not exist; put the \(file.kindName) there" : error.message(path: file.path)
            throw StoreError(.unfit, message: "the store's \(file.kindName) cannot be used: \(message)")
        }
    }

    private static func withoutTextNewline(_ key: Secret) -> Secret {
        key.withBytes { bytes in
            guard bytes.last == UInt8(ascii: "\n") else { return key }
            let rest = UnsafeRawBufferPointer(rebasing: bytes.dropLast())
            return rest.allSatisfy { (0x20...0x7e).contains($0) } ? Secret(copying: rest) : key
        }
    }
}
