import COpenSSL

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
