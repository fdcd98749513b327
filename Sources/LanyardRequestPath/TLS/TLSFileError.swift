import LanyardFoundations

/// Why the certificates or the key of a file cannot be used.
///
/// A type of its own: `lanyard check`, the start and a reload have the same findings, and each says the path.
package enum TLSFileError: Error, Equatable, Sendable {
    case empty
    /// No block of the file is a certificate.
    case noCertificate
    /// No block of the file is a private key.
    case noKey
    /// A block has no end, or its content cannot be read.
    case damaged
    /// The key is encrypted with a password.
    case passwordProtected
    /// The key belongs to another certificate.
    case keyMismatch
    /// The key belongs to a certificate of the file, but not to its first one.
    case leafNotFirst
    /// OpenSSL refuses the key or the certificate, such as RSA of 1024 bits.
    case tooWeak
    /// The name to verify is neither a DNS name nor an address.
    case badName
    /// There is no memory for it.
    case noMemory

    /// What is wrong with the file, with the remedy; the path goes before it.
    package var message: String {
        switch self {
        case .empty: "is empty; write PEM into it"
        case .noCertificate: "has no certificate; it must have a block BEGIN CERTIFICATE"
        case .noKey: "has no private key; it must have a block BEGIN PRIVATE KEY"
        case .damaged: "has a block that is damaged or has no end; write the whole file and rename it to this one"
        case .passwordProtected:
            "has a key that is protected by a password; remove it (openssl pkey) and give the file the mode 0600"
        case .keyMismatch:
            "has a key that does not belong to the certificate; name both files of one pair: openssl x509 -in CERTIFICATE "
                + "-noout -pubkey and openssl pkey -in KEY -pubout print the same for it"
        case .leafNotFirst: "has the certificate of the key, but not as the first; write it before its authorities"
        case .tooWeak: "has a key or a certificate that is too weak; use RSA of 2048 bits or P-256, and SHA-256"
        case .badName: "names no host; write a DNS name or an address"
        case .noMemory: "cannot be used: no memory; free some"
        }
    }
}
