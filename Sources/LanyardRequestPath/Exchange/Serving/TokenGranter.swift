import LanyardFoundations

/// Decides who may have which access token at the listener of a broker (fleet.md). It does no I/O and parks nothing: the exchange reads
/// the request, asks it on the shard's queue, acquires the token as for any other request, and sends the response.
package protocol TokenGranter: AnyObject, Sendable {
    /// Gives its rows the indexes of their users. Once, before a shard asks.
    ///
    /// - Returns: the users whose names were unknown until now.
    func bind(in names: UserNames) -> [UserIndex]

    /// The users of its rows, without the active one.
    var userNames: [String] { get }
    /// A row names the active user.
    var followsActive: Bool { get }

    /// Every user and kind of token that it may hand out. After `bind`.
    var users: [UserIndex] { get }

    /// What a request gets.
    func decide(_ request: GrantRequest) -> GrantDecision

    /// The response with the token. The grant is counted and logged.
    ///
    /// - Parameter user: the user's name.
    func respond(to grant: TokenGrant, with token: AccessToken, of user: String, at now: Instant) -> GrantResponse
}

/// A request at a broker's listener. Valid during the call.
package struct GrantRequest {
    package let method: RequestHead.Method
    package let path: Bytes
    /// Without its question mark; empty: there is none.
    package let query: Bytes
    /// nil: none has been read, and `GrantDecision.readBody` may ask for it.
    package let body: UnsafeRawBufferPointer?
    package let client: GrantClient
    /// The active user; nil: there is none.
    package let active: UserIndex?
    private let head: Bytes
    private let lines: FieldLines

    package init(
        _ method: RequestHead.Method, path: Bytes, query: Bytes, _ head: Bytes, _ lines: FieldLines,
        body: UnsafeRawBufferPointer?, from client: GrantClient, active: UserIndex?
    ) {
        (self.method, self.path, self.query) = (method, path, query)
        (self.head, self.lines) = (head, lines)
        (self.body, self.client, self.active) = (body, client, active)
    }

    /// A longer body is refused.
    package static let bodyBytesMax = 16 << 10

    /// The values of a field, in order.
    ///
    /// - Parameter name: in small letters.
    package func values(of name: StaticString) -> [Bytes] {
        (0..<lines.count).compactMap {
            lines.name($0, in: head).equals(lowered: name) ? lines.value($0, in: head) : nil
        }
    }
}

/// What is known of who asks. Valid during the call.
package struct GrantClient {
    /// Of the process at the other end of a unix socket; nil: a TCP client.
    package let uid: UInt32?
    /// The client's certificate (`X509 *`), which is valid; nil: it has none.
    package let certificate: OpaquePointer?
    /// Of the shard. A capability that cannot be read admits no caller.
    package let capabilities: [Secret?]

    package init(uid: UInt32?, certificate: OpaquePointer?, capabilities: [Secret?]) {
        (self.uid, self.certificate, self.capabilities) = (uid, certificate, capabilities)
    }
}

package enum GrantDecision {
    /// The body must be read first. If it is too long, or does not come, that is told in this form.
    case readBody(as: ResponseForm)
    /// The caller may have this user's token.
    case grant(TokenGrant)
    /// An upstream has refused a token, as a caller says.
    case reportRefusal(UserIndex, generation: UInt64)
    case respond(GrantResponse)
    indirect case refuse(Problem, as: ResponseForm)
}

/// A token that a caller may have.
package struct TokenGrant {
    package let user: UserIndex
    /// In which form the token, or the reason why there is none, is told.
    package let interface: Interface
    /// As the log and the metrics name it: `uid:1000`.
    package let caller: String
    /// The kind of token in words; empty: the plain one.
    package let audience: String

    package enum Interface: Sendable { case token, oauth2, gceMetadata }

    package init(of user: UserIndex, by interface: Interface, to caller: String, audience: String) {
        (self.user, self.interface, self.caller, self.audience) = (user, interface, caller, audience)
    }

    var problemForm: ResponseForm { interface == .oauth2 ? .oauth : .problem }
}

/// A response of a broker.
package struct GrantResponse {
    package let status: Int
    package let contentType: StaticString
    /// May have a token.
    package let body: Secret
    /// Further fields.
    package let fields: [(name: StaticString, value: StaticString)]

    package init(
        _ status: Int = 200, _ contentType: StaticString, _ body: Secret,
        fields: [(name: StaticString, value: StaticString)] = []
    ) {
        (self.status, self.contentType, self.body, self.fields) = (status, contentType, body, fields)
    }

    var reason: StaticString { status == 202 ? "Accepted" : "OK" }
}
