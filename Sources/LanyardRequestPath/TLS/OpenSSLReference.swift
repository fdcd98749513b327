import COpenSSL

/// One reference to an object of OpenSSL, which this value owns. It is given back when the value goes.
///
/// An object that several holders share, such as a context, is in a class that has this value.
struct OpenSSLReference<Kind: OpenSSLObject>: ~Copyable, @unchecked Sendable {
    /// The C pointer. Its users do not outlive this value, or take a reference of their own.
    let raw: OpaquePointer

    /// Takes over the caller's reference.
    init(taking raw: OpaquePointer) { self.raw = raw }

    deinit { Kind.giveBack(raw) }
}

/// A kind of objects that OpenSSL counts the references of.
protocol OpenSSLObject {
    /// Gives back one reference.
    static func giveBack(_ raw: OpaquePointer)
}

/// `SSL_CTX`.
enum OpenSSLContext: OpenSSLObject {
    static func giveBack(_ raw: OpaquePointer) { SSL_CTX_free(raw) }
}

/// `SSL_SESSION`.
enum OpenSSLSession: OpenSSLObject {
    static func giveBack(_ raw: OpaquePointer) { SSL_SESSION_free(raw) }
}

/// `EVP_PKEY`.
enum OpenSSLKey: OpenSSLObject {
    static func giveBack(_ raw: OpaquePointer) { EVP_PKEY_free(raw) }
}

/// `X509_STORE`.
enum OpenSSLStore: OpenSSLObject {
    static func giveBack(_ raw: OpaquePointer) { X509_STORE_free(raw) }
}

/// An `SSL` and the socket that its callbacks use, which has to live as long.
struct TLSHandle: ~Copyable {
    let ssl: OpaquePointer
    let socket: UnsafeMutablePointer<lanyard_tls_socket>

    /// nil: there is no memory; OpenSSL's error queue says more.
    ///
    /// - Parameter context: an `SSL_CTX`, which the `SSL` takes a reference of.
    init?(of context: OpaquePointer, on descriptor: CInt, output: UnsafeMutablePointer<lanyard_tls_bytes>?) {
        let socket = UnsafeMutablePointer<lanyard_tls_socket>.allocate(capacity: 1)
        socket.initialize(to: lanyard_tls_socket())
        socket.pointee.output = output
        socket.pointee.descriptor = descriptor
        socket.pointee.may_read = true
        guard let ssl = lanyard_tls_new(context, socket) else {
            socket.deallocate()
            return nil
        }
        (self.ssl, self.socket) = (ssl, socket)
    }

    deinit {
        SSL_free(ssl)
        socket.deallocate()
    }
}
