import COpenSSL

/// One reference to an object of OpenSSL, which this value owns. It is given back when the value goes.
///
/// An object that several holders share, such as a context, is in a class that has this value.
package struct OpenSSLReference<Kind: OpenSSLObject>: ~Copyable, @unchecked Sendable {
    /// The C pointer. Its users do not outlive this value, or take a reference of their own.
    package let raw: OpaquePointer

    /// Takes over the caller's reference.
    package init(taking raw: OpaquePointer) { self.raw = raw }

    deinit { Kind.giveBack(raw) }
}

/// A kind of objects that OpenSSL counts the references of.
package protocol OpenSSLObject {
    /// Gives back one reference.
    static func giveBack(_ raw: OpaquePointer)
}

/// `SSL_CTX`.
package enum OpenSSLContext: OpenSSLObject {
    package static func giveBack(_ raw: OpaquePointer) { SSL_CTX_free(raw) }
}

/// `SSL_SESSION`.
package enum OpenSSLSession: OpenSSLObject {
    package static func giveBack(_ raw: OpaquePointer) { SSL_SESSION_free(raw) }
}

/// `EVP_PKEY`.
package enum OpenSSLKey: OpenSSLObject {
    package static func giveBack(_ raw: OpaquePointer) { EVP_PKEY_free(raw) }
}

/// `X509_STORE`.
package enum OpenSSLStore: OpenSSLObject {
    package static func giveBack(_ raw: OpaquePointer) { X509_STORE_free(raw) }
}
