import LanyardSessionInterface

/// An identity service that Lanyard calls over HTTP, with the life of its connections.
package protocol IdentityClient: IdentityService {
    /// Calls that are no session's own and have had no response for some seconds. From any thread.
    var slowCalls: [CallProgress] { get }
    /// What the latest calls have found.
    var contact: ServiceContact { get }
    /// Starts its own loop. Once. Calls that were made before proceed from now on.
    func start()
    /// Ends all calls in flight. Every open call and every later one fails at once. Permanent.
    func stop()
    /// The TLS files hold something else. Calls that start from now on use it.
    func replaceTLS(_ tls: IdentityTLSContents)
    /// Connects with the TLS and the proxy of all calls, and closes the connection. Sends no request.
    func connect(reply: @escaping @Sendable (Result<IdentityConnection, IdentityError>) -> Void)
    /// Asks where the service's endpoints are, as the first call of a session does.
    func locate(reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void)
}
