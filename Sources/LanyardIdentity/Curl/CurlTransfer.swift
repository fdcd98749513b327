import CCurl
import CLinux
import COpenSSL
import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// One HTTP exchange with a libcurl easy handle. Belongs to its `CurlMulti`, which checks the loop.
///
/// A class, because libcurl's callbacks carry its address.
final class CurlTransfer {
    typealias Reply = (Result<CurlResponse, CurlError>) -> Void

    /// Bytes of all heads of a response, interim responses and trailers included.
    static let headBytesMax = 64 << 10
    private static let fieldBytesMax = 2048

    /// An address to which no connection is made, and why.
    private enum ProhibitedAddress {
        case metadataService(String)
        case remoteByPlainHTTP(String)
        case unknown

        var message: String {
            switch self {
            case .metadataService(let host):
                "\(host) is link-local or an address of a metadata service, at which no identity service is called; check base_url, "
                    + "the hosts file, the name server, the service's location and the proxy"
            case .remoteByPlainHTTP(let host):
                "plain http to \(host), which is not a loopback address, would show passwords and tokens; check base_url, the "
                    + "hosts file, the service's location and the proxy, use https, or set unsafe_plain if that way is safe"
            case .unknown: "libcurl gave an address of an unknown kind"
            }
        }
    }

    /// Why a transfer is ended that receives, and comes no further.
    private enum Flood {
        case bytes(Int)
        case steps
        case messages

        var message: String {
            switch self {
            case .bytes(let max): "more than \(max >> 10) KiB came for it"
            case .steps: "it came in too many small pieces"
            case .messages: "more than \(LANYARD_TLS_MESSAGES_MAX) messages of TLS came that carry no data"
            }
        }
    }

    let request: CurlRequest
    private var handle: CurlEasyHandle
    var easy: UnsafeMutableRawPointer { handle.easy }
    /// The sockets that libcurl watches for this transfer. `CurlMulti` keeps the list.
    var descriptors: Set<CInt> = []
    /// The one that was watched last, which is that of the connection once there is one. `CurlMulti` keeps it.
    var latestDescriptor: CInt?
    private var reply: Reply?
    private var body = SecretBuffer(capacity: 4096)
    private var headBytes = 0
    private var headIsComplete = false
    /// The head says where the body ends. Otherwise the end of the connection says it.
    private var hasBodyLength = false
    /// The codings of the body, without `chunked` and `identity`.
    private var codings = 0
    /// A coding, or a chain of them, that is not decoded.
    private var hasForeignCoding = false
    /// `Content-Encoding` has a name that is no coding, such as `utf-8`. libcurl is told to leave the body as it is.
    private var hasNoCodingName = false
    private var fields = CurlResponse.Fields()
    private var isTooLarge = false
    private var stepsLeft = 0
    private var flood: Flood?
    private var restrictedToLoopback = false
    /// An address to which a connection was refused.
    private var prohibited: ProhibitedAddress?
    /// A connection to some address was allowed.
    private var hasAllowedConnection = false
    private var isRetry = false
    private var requestStartedAt: ClockReading?
    /// Bytes of a body with a gate that libcurl has got.
    private var bodyBytesGiven = 0
    /// Has libcurl ask for the body again. Late because it names libcurl's handle, which this object makes.
    var resume: (@Sendable () -> Void)?

    /// nil when memory is short.
    init?(_ request: CurlRequest, reply: @escaping Reply) {
        guard let handle = CurlEasyHandle() else { return nil }
        self.handle = handle
        self.request = request
        self.reply = reply
    }

    /// Replies with the outcome. Later calls do nothing.
    func finish(_ outcome: Result<CurlResponse, CurlError>) {
        let reply = self.reply
        self.reply = nil
        reply?(outcome)
    }

    /// The outcome for libcurl's result code. Leaves the body empty.
    func outcome(_ code: CURLcode) -> Result<CurlResponse, CurlError> {
        var status = 0
        lanyard_curl_get_long(easy, CURLINFO_RESPONSE_CODE, &status)
        let hasBodyEnd = hasBodyLength || status == 204 || status == 304
        if handle.tally.pointee.is_exceeded, code != CURLE_OK || !hasBodyEnd { flood = .messages }
        guard isComplete(code) else {
            if let prohibited, !hasAllowedConnection {
                return .failure(CurlError(kind: .prohibited, wasRequestSent: false, message: prohibited.message))
            }
            if let refusal = certificateRefusal {
                return .failure(CurlError(kind: .certificateRefused, wasRequestSent: false, message: refusal))
            }
            return .failure(
                CurlError(
                    kind: kind(code), wasRequestSent: wasRequestSent, status: status > 0 ? status : nil,
                    partialBody: 200..<300 ~= status ? sealedBody() : nil, message: message(code)))
        }
        if request.onlyConnects {
            let nothing = SecretBuffer(capacity: 1).seal()
            return .success(
                CurlResponse(
                    status: 0, fields: fields, body: nothing, requestStartedAt: requestStartedAt, connection: connection
                ))
        }
        // libcurl treats the end of the connection as the end of the head.
        guard headIsComplete else {
            let message = "the connection ended inside the head of the response"
            return .failure(
                CurlError(
                    kind: .broken, wasRequestSent: true, status: status,
                    partialBody: 200..<300 ~= status ? sealedBody() : nil, message: message))
        }
        return .success(
            CurlResponse(
                status: status, fields: fields, body: sealedBody(), requestStartedAt: requestStartedAt,
                certificateEnd: certificateEnd, isEarly: request.gate != nil && bodyBytesGiven == 0))
    }

    /// Whether libcurl has the whole response. What floods behind it does not count. A flood of messages ends the connection here, which is
    /// no end of a body.
    private func isComplete(_ code: CURLcode) -> Bool {
        guard code == CURLE_OK else { return false }
        if case .messages = flood { return false }
        return true
    }

    /// Without a byte order mark, which readers of JSON may ignore (RFC 8259 §8.1). Leaves the body empty.
    private func sealedBody() -> Secret {
        var taken = SecretBuffer(capacity: 1)
        swap(&taken, &body)
        let sealed = taken.seal()
        return sealed.withBytes { bytes in
            guard SecretText.hasByteOrderMark(bytes) else { return sealed }
            return Secret(copying: UnsafeRawBufferPointer(rebasing: bytes[3...]))
        }
    }

    /// A second attempt of the same exchange, after this one failed for lack of a descriptor. This one then never replies. nil for another
    /// reason, or if this is a second attempt already.
    func retry(after code: CURLcode) -> CurlTransfer? {
        let isBefore = [CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT].contains(code)
        guard isBefore, !wasRequestSent, !isRetry, request.gate?.isCancelled != true,
            DescriptorShortage.shared.isExhausted, let reply, let next = CurlTransfer(request, reply: reply)
        else { return nil }
        self.reply = nil
        next.isRetry = true
        return next
    }

    /// The time limit passed before the name was resolved: libcurl has left a thread in `getaddrinfo`.
    func timedOutResolving(_ code: CURLcode) -> Bool {
        var microseconds: curl_off_t = 0
        lanyard_curl_get_offset(easy, CURLINFO_NAMELOOKUP_TIME_T, &microseconds)
        return code == CURLE_OPERATION_TIMEDOUT && microseconds == 0 && request.unixSocket == nil
    }

    /// Bytes of the request itself were sent: TLS is established, and a proxy has connected. Where the body has a gate, it is the body that
    /// counts: the head does nothing without it.
    var wasRequestSent: Bool { request.gate == nil ? wasHeadSent : bodyBytesGiven > 0 }

    private var wasHeadSent: Bool {
        var bytes = 0
        var begun: curl_off_t = 0
        lanyard_curl_get_long(easy, CURLINFO_REQUEST_SIZE, &bytes)
        lanyard_curl_get_offset(easy, CURLINFO_PRETRANSFER_TIME_T, &begun)
        return bytes > 0 && begun > 0
    }

    /// What the server's alert says of the client's certificate, if it has refused that before any data of a response; nil: it has not.
    ///
    /// With TLS 1.3 the client has completed its part of the handshake before the server reads the certificate. So libcurl may have written
    /// the request, which a server that ends the handshake never reads.
    private var certificateRefusal: String? {
        let alert = CInt(handle.tally.pointee.alert)
        guard Self.certificateAlerts.contains(alert) || wasHeadSent && Self.handshakeAlerts.contains(alert)
        else { return nil }
        return String(cString: SSL_alert_desc_string_long(alert))
    }

    /// What a server says of a client's certificate (RFC 8446 §6.2).
    private static let certificateAlerts: Set<CInt> = [
        SSL_AD_BAD_CERTIFICATE, SSL_AD_UNSUPPORTED_CERTIFICATE, SSL_AD_CERTIFICATE_REVOKED, SSL_AD_CERTIFICATE_EXPIRED,
        SSL_AD_CERTIFICATE_UNKNOWN, SSL_AD_UNKNOWN_CA, SSL_AD_ACCESS_DENIED, SSL_AD_CERTIFICATE_REQUIRED,
    ]
    /// These end a handshake for several causes. When the client's part is complete, only its certificate and the proof of its
    /// key are left.
    private static let handshakeAlerts: Set<CInt> = [SSL_AD_HANDSHAKE_FAILURE, SSL_AD_DECRYPT_ERROR]

    // MARK: Options

    /// Prepares the handle. False if libcurl refuses an option, which only a lack of memory explains.
    func prepare(_ trust: CurlTrust, _ limits: CurlLimits, timeLeft: Duration) -> Bool {
        requestStartedAt = .now
        let total = min(timeLeft, request.timeout ?? timeLeft, limits.totalTimeout)
        stepsLeft = limits.stepsMax
        let own = UnsafeMutableRawPointer(Unmanaged.passUnretained(self).toOpaque())
        return setFixedOptions() && setTrust(trust) && setRequest()
            && set(CURLOPT_TIMEOUT_MS, max(Int(total.nanoseconds / 1_000_000), 1))
            && set(CURLOPT_CONNECTTIMEOUT_MS, max(Int(min(total, limits.connectTimeout).nanoseconds / 1_000_000), 1))
            && set(CURLOPT_XFERINFODATA, own: own)
            && lanyard_curl_set_step_callback(easy, Self.onStep) == CURLE_OK
            && set(CURLOPT_ERRORBUFFER, own: UnsafeMutableRawPointer(handle.errorBuffer))
            && set(CURLOPT_WRITEDATA, own: own) && set(CURLOPT_HEADERDATA, own: own)
            && lanyard_curl_set_data_callback(easy, CURLOPT_WRITEFUNCTION, Self.onBody) == CURLE_OK
            && lanyard_curl_set_data_callback(easy, CURLOPT_HEADERFUNCTION, Self.onHead) == CURLE_OK
    }

    /// Options of every exchange (architecture.md 2.8).
    private func setFixedOptions() -> Bool {
        set(CURLOPT_NOSIGNAL, 1)
            // Otherwise a time-out or a removal during name resolution waits for the resolver's thread.
            && set(CURLOPT_QUICK_EXIT, 1)
            // The callback for progress is called in every step.
            && set(CURLOPT_NOPROGRESS, 0)
            && set(CURLOPT_BUFFERSIZE, CurlLimits.bufferBytes)
            && set(CURLOPT_VERBOSE, 0)
            && set(CURLOPT_FOLLOWLOCATION, 0)
            && set(CURLOPT_UNRESTRICTED_AUTH, 0)
            && set(CURLOPT_PROTOCOLS_STR, isTLS ? "https" : "http")
            && set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
            && set(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1)
            && set(CURLOPT_HTTP09_ALLOWED, 0)
            // Asks for none, and has libcurl decode one all the same: gateways compress unasked. The limit of the body is
            // that of the decoded bytes.
            && set(CURLOPT_ACCEPT_ENCODING, "identity")
            // Calls are many minutes apart. A connection that is kept that long may be dead. libcurl would then resend the request by
            // itself, which would use a one-use refresh token twice.
            && set(CURLOPT_FRESH_CONNECT, 1)
            && set(CURLOPT_FORBID_REUSE, 1)
            // libcurl would remember a name's addresses for a minute. A service that has moved would be taken for one that refuses.
            && set(CURLOPT_DNS_CACHE_TIMEOUT, 0)
    }

    /// What is no URL for Lanyard, and may be one for libcurl, is not taken for TLS.
    private var isTLS: Bool { URLOrigin(of: request.url)?.isTLS ?? false }

    private func setTrust(_ trust: CurlTrust) -> Bool {
        guard set(CURLOPT_SSL_VERIFYPEER, 1), set(CURLOPT_SSL_VERIFYHOST, 2),
            set(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2),
            // Each call is a handshake of its own, which verifies the service.
            set(CURLOPT_SSL_SESSIONID_CACHE, 0),
            set(CURLOPT_SSL_CTX_DATA, own: UnsafeMutableRawPointer(handle.tally)),
            lanyard_curl_set_context_callback(easy, Self.onContext) == CURLE_OK
        else { return false }
        if let authorities = trust.tls.authorities {
            // Otherwise Debian's folder of authorities would be trusted too.
            guard set(CURLOPT_CAINFO_BLOB, authorities), set(CURLOPT_CAPATH, nil) else { return false }
        }
        if let certificate = trust.tls.certificate {
            guard set(CURLOPT_SSLCERT_BLOB, certificate) else { return false }
        }
        if let key = trust.tls.key {
            // With a password, even an empty one, OpenSSL never asks for one on the terminal.
            guard set(CURLOPT_SSLKEY_BLOB, key), set(CURLOPT_KEYPASSWD, "") else { return false }
        }
        restrictedToLoopback = trust.restrictsPlainHTTPToLoopback && !isTLS && request.unixSocket == nil
        let own = UnsafeMutableRawPointer(Unmanaged.passUnretained(self).toOpaque())
        guard set(CURLOPT_OPENSOCKETDATA, own: own), lanyard_curl_set_open_callback(easy, Self.onOpen) == CURLE_OK
        else { return false }
        // A unix socket is on this machine.
        return handle.setProxy(trust, isUsed: request.unixSocket == nil)
    }

    private func setRequest() -> Bool {
        guard set(CURLOPT_URL, request.url) else { return false }
        if let path = request.unixSocket { guard set(CURLOPT_UNIX_SOCKET_PATH, path) else { return false } }
        guard set(CURLOPT_CERTINFO, 1) else { return false }
        if request.onlyConnects { return set(CURLOPT_CONNECT_ONLY, 1) }
        switch request.method {
        case .get: guard set(CURLOPT_HTTPGET, 1) else { return false }
        case .delete: guard set(CURLOPT_CUSTOMREQUEST, "DELETE") else { return false }
        case .put:
            guard set(CURLOPT_POST, 1), setBody(), set(CURLOPT_CUSTOMREQUEST, "PUT") else { return false }
        case .post:
            guard set(CURLOPT_POST, 1), setBody() else { return false }
        }
        for line in request.fields { guard append(line) else { return false } }
        // Suppresses libcurl's own additions: a form's content type, and a pause of a second before a large body.
        guard append("Expect:"), request.method != .post || hasContentType || append("Content-Type:") else {
            return false
        }
        if let bearer = request.bearer, !append("Authorization: Bearer ", bearer) { return false }
        for field in request.secretFields where !append("\(field.name): ", field.value) { return false }
        return lanyard_curl_set_list(easy, CURLOPT_HTTPHEADER, handle.list) == CURLE_OK
    }

    private var hasContentType: Bool { request.fields.contains { $0.lowercased().hasPrefix("content-type:") } }

    /// libcurl copies the body; its allocator wipes the copy.
    private func setBody() -> Bool {
        guard let body = request.body else { return set(CURLOPT_POSTFIELDSIZE, 0) && set(CURLOPT_COPYPOSTFIELDS, "") }
        guard request.gate == nil else { return set(CURLOPT_POSTFIELDSIZE, body.count) && setBodySource() }
        return set(CURLOPT_POSTFIELDSIZE, body.count)
            && body.withBytes { set(CURLOPT_COPYPOSTFIELDS, own: UnsafeMutableRawPointer(mutating: $0.baseAddress!)) }
    }

    /// libcurl asks for the body when it has written the head.
    private func setBodySource() -> Bool {
        set(CURLOPT_READDATA, own: UnsafeMutableRawPointer(Unmanaged.passUnretained(self).toOpaque()))
            && lanyard_curl_set_data_callback(easy, CURLOPT_READFUNCTION, Self.onRead) == CURLE_OK
    }

    private static let onRead: lanyard_curl_data_callback = { bytes, size, count, context in
        let transfer = Unmanaged<CurlTransfer>.fromOpaque(context!).takeUnretainedValue()
        return transfer.giveBody(to: UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
    }

    /// Returns the number of bytes, 0 at the end, or that libcurl is to wait or to end the transfer.
    private func giveBody(to room: UnsafeMutableRawBufferPointer) -> Int {
        guard let gate = request.gate, let body = request.body, let resume else { return Int(CURL_READFUNC_ABORT) }
        switch gate.ask(resume) {
        case .pending: return Int(CURL_READFUNC_PAUSE)
        case .refused: return Int(CURL_READFUNC_ABORT)
        case .granted:
            // libcurl would send the body on a connection that the peer has closed since. The outcome would be unknown.
            if bodyBytesGiven == 0, latestDescriptor.map({ lanyard_tcp_has_end($0) == 1 }) ?? false {
                return Int(CURL_READFUNC_ABORT)
            }
            return body.withBytes { bytes in
                let part = bytes[bodyBytesGiven..<min(bodyBytesGiven + room.count, bytes.count)]
                room.copyBytes(from: part)
                bodyBytesGiven += part.count
                return part.count
            }
        }
    }

    /// The line is in wiped memory.
    private func append(_ start: String, _ value: Secret) -> Bool {
        var line = SecretBuffer(capacity: value.count + 64)
        line.append(start)
        value.withBytes { line.append($0) }
        line.append(0)
        return line.withBytes { append($0.baseAddress!.assumingMemoryBound(to: CChar.self)) }
    }

    private func append(_ line: UnsafePointer<CChar>) -> Bool {
        guard let grown = curl_slist_append(handle.list, line) else { return false }
        handle.list = grown
        return true
    }

    private func set(_ option: CURLoption, _ value: Int) -> Bool {
        lanyard_curl_set_long(easy, option, value) == CURLE_OK
    }

    private func set(_ option: CURLoption, _ value: String?) -> Bool {
        lanyard_curl_set_string(easy, option, value) == CURLE_OK
    }

    private func set(_ option: CURLoption, _ value: Secret) -> Bool {
        value.withBytes { lanyard_curl_set_blob(easy, option, $0.baseAddress, $0.count) } == CURLE_OK
    }

    private func set(_ option: CURLoption, own value: UnsafeMutableRawPointer) -> Bool {
        lanyard_curl_set_pointer(easy, option, value) == CURLE_OK
    }

    // MARK: Sockets

    private static let onOpen: lanyard_curl_open_callback = { context, _, wanted in
        let transfer = Unmanaged<CurlTransfer>.fromOpaque(context!).takeUnretainedValue()
        guard let wanted, transfer.allowsConnection(wanted) else { return CURL_SOCKET_BAD }
        let kind = wanted.pointee.socktype | CInt(SOCK_CLOEXEC.rawValue)
        return socket(wanted.pointee.family, kind, wanted.pointee.protocol)
    }

    /// Decides by the address, whether the name was the service's or a proxy's.
    private func allowsConnection(_ wanted: UnsafeMutablePointer<curl_sockaddr>) -> Bool {
        if wanted.pointee.family == AF_UNIX, request.unixSocket != nil {
            hasAllowedConnection = true
            return true
        }
        let bytes = UnsafeRawPointer(wanted) + MemoryLayout<curl_sockaddr>.offset(of: \.addr)!
        let address = SocketAddress { room, length in
            length.pointee = min(length.pointee, wanted.pointee.addrlen)
            memcpy(room, bytes, Int(length.pointee))
            return true
        }
        guard let address else {
            prohibited = .unknown
            return false
        }
        if address.isMetadataService {
            prohibited = .metadataService(address.host)
        } else if restrictedToLoopback, !address.isLoopback {
            prohibited = .remoteByPlainHTTP(address.host)
        } else {
            hasAllowedConnection = true
            return true
        }
        return false
    }

    private static let onContext: lanyard_curl_context_callback = { _, context, tally in
        let tally = tally!.assumingMemoryBound(to: lanyard_tls_tally.self)
        return lanyard_tls_guard_client(OpaquePointer(context), tally) == 1 ? CURLE_OK : CURLE_OUT_OF_MEMORY
    }

    // MARK: Floods

    private static let onStep: lanyard_curl_step_callback = { context, _, _, _, _ in
        Unmanaged<CurlTransfer>.fromOpaque(context!).takeUnretainedValue().endsFlood() ? 1 : 0
    }

    /// A limit was crossed while a body arrived. Once libcurl returns, the transfer is to be ended unless it has ended by itself.
    var isFlooded: Bool { flood != nil }

    /// Whether this step ends the transfer. libcurl has no limit of what reaches none of its other callbacks, such as the extension of a
    /// chunk.
    ///
    /// A step that has brought some of the body may have brought all of it: the rest of the step is libcurl's, which reads a bounded number
    /// of bytes in it.
    private func endsFlood() -> Bool {
        guard flood == nil else { return body.count == 0 }
        let bytesMax = CurlLimits.rawBytesMax(bodyBytes: request.responseBytesMax)
        stepsLeft -= 1
        if stepsLeft < 0 {
            flood = .steps
        } else if descriptors.contains(where: { lanyard_tcp_received($0) > bytesMax }) {
            flood = .bytes(Int(bytesMax))
        }
        return flood != nil && body.count == 0
    }

    // MARK: Received bytes

    private static let onBody: lanyard_curl_data_callback = { bytes, size, count, context in
        let transfer = Unmanaged<CurlTransfer>.fromOpaque(context!).takeUnretainedValue()
        return transfer.receiveBody(UnsafeRawBufferPointer(start: bytes, count: size * count))
    }

    private static let onHead: lanyard_curl_data_callback = { bytes, size, count, context in
        let transfer = Unmanaged<CurlTransfer>.fromOpaque(context!).takeUnretainedValue()
        return transfer.receiveHead(UnsafeRawBufferPointer(start: bytes, count: size * count))
    }

    /// A return value below the given count ends the transfer.
    private func receiveBody(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard body.count + bytes.count <= request.responseBytesMax else {
            isTooLarge = true
            return 0
        }
        body.append(bytes)
        return bytes.count
    }

    /// One line of a head or of the trailers.
    private func receiveHead(_ line: UnsafeRawBufferPointer) -> Int {
        headBytes += line.count
        guard headBytes <= Self.headBytesMax else {
            isTooLarge = true
            return 0
        }
        if line.starts(with: "HTTP/".utf8) {
            fields = CurlResponse.Fields()
            (headIsComplete, hasBodyLength, codings) = (false, false, 0)
            if hasNoCodingName {
                hasNoCodingName = false
                _ = set(CURLOPT_HTTP_CONTENT_DECODING, 1)
            }
        } else if line.first == UInt8(ascii: "\r") || line.first == UInt8(ascii: "\n") {
            headIsComplete = true
        }
        // Trailers follow the body and are ignored.
        guard body.count == 0, let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return line.count }
        let name = Self.lowered(line[..<colon])
        guard line.count <= Self.fieldBytesMax else {
            // A list of codings of that length is refused as a chain.
            hasForeignCoding = hasForeignCoding || name == "content-encoding" || name == "transfer-encoding"
            return hasForeignCoding ? 0 : line.count
        }
        switch name {
        case "content-type": fields.contentType = Self.value(line[(colon + 1)...])
        case "retry-after": fields.retryAfter = Self.value(line[(colon + 1)...])
        case "date": fields.date = Self.value(line[(colon + 1)...])
        case "location": fields.location = Self.value(line[(colon + 1)...])
        case "x-ratelimit-remaining": fields.rateLimitRemaining = Self.value(line[(colon + 1)...])
        case "x-ratelimit-reset": fields.rateLimitReset = Self.value(line[(colon + 1)...])
        case "content-length": hasBodyLength = true
        case "transfer-encoding":
            hasBodyLength = true
            return addCodings(line[(colon + 1)...], isOfTransfer: true) ? line.count : 0
        case "content-encoding": return addCodings(line[(colon + 1)...], isOfTransfer: false) ? line.count : 0
        default: break
        }
        return line.count
    }

    /// One of these at most is decoded. The other ones of libcurl have memory of their own that is not wiped, and no client of theirs asks
    /// for none.
    private static let decodedCodings: Set<String> = ["gzip", "x-gzip", "deflate"]

    /// The names of content codings that change bytes and are not decoded here: the registry of RFC 9110 §16.6, and names in use without
    /// being in it.
    private static let foreignCodings: Set<String> = [
        "aes128gcm", "br", "bz2", "bzip2", "compress", "dcb", "dcz", "exi", "lz4", "lzma", "pack200-gzip", "sdch",
        "snappy", "x-bzip2",
        "x-compress", "x-lzma", "x-xz", "xz", "zlib", "zstd",
    ]

    /// Takes the codings of one line.
    ///
    /// `identity`, and `none`, which libcurl takes for it, change nothing. Another name that is no content coding, such as `utf-8`, is a
    /// mistake: clients that do not know it read the body as it is. So does Lanyard, which takes nothing but JSON for a response.
    ///
    /// - Returns: false: the body is refused. A chain of codings makes much of few bytes.
    private func addCodings(_ list: Slice<UnsafeRawBufferPointer>, isOfTransfer: Bool) -> Bool {
        for part in Self.lowered(list).split(whereSeparator: { ", \t\r\n".contains($0) }) {
            let name = String(part)
            switch name {
            case "identity", "none": break
            case "chunked" where isOfTransfer: break
            case _ where Self.decodedCodings.contains(name):
                codings += 1
                hasForeignCoding = hasForeignCoding || codings > 1
            case _ where isOfTransfer || Self.foreignCodings.contains(name): hasForeignCoding = true
            default:
                hasNoCodingName = true
                // It would refuse the body for a name that it does not know. It decides when the body comes.
                guard set(CURLOPT_HTTP_CONTENT_DECODING, 0) else { return false }
            }
        }
        // Then nothing is decoded.
        if hasNoCodingName, codings > 0 { hasForeignCoding = true }
        return !hasForeignCoding
    }

    private static func lowered(_ name: Slice<UnsafeRawBufferPointer>) -> String {
        String(decoding: name.map { (0x41...0x5a).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    /// The value without outer space; nil unless it is printable ASCII.
    private static func value(_ bytes: Slice<UnsafeRawBufferPointer>) -> String? {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 || $0 == 0x0d || $0 == 0x0a }
        var bytes = bytes.drop(while: isSpace)
        while let last = bytes.last, isSpace(last) { bytes.removeLast() }
        guard !bytes.isEmpty, bytes.allSatisfy({ 0x20..<0x7f ~= $0 }) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Errors

    private func kind(_ code: CURLcode) -> CurlError.Kind {
        if isTooLarge || flood != nil || hasEndlessLine(code) { return .tooLarge }
        return switch code {
        case CURLE_OPERATION_TIMEDOUT: .timedOut
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT: .unreachable
        // Unknown authority, wrong name, expired: libcurl has one code for all of them.
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR: .untrusted
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER, CURLE_SSL_CLIENTCERT: .handshake
        case CURLE_OUT_OF_MEMORY, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CACERT_BADFILE, CURLE_URL_MALFORMAT: .local
        default: .broken
        }
    }

    /// libcurl says that it lacks memory when a line is longer than its limit. Where memory is short Lanyard ends.
    private func hasEndlessLine(_ code: CURLcode) -> Bool { code == CURLE_OUT_OF_MEMORY && wasRequestSent }

    /// libcurl's message. Its longer text is used only if it consists of our settings, the system's and the TLS library's texts, never of a
    /// response.
    private func message(_ code: CURLcode) -> String {
        let short = String(cString: curl_easy_strerror(code))
        if let flood { return flood.message }
        if hasForeignCoding { return "its body has a coding, or several, that it was not asked for (Content-Encoding)" }
        if hasEndlessLine(code) { return "a line of its head is longer than 100 KiB" }
        if isTooLarge {
            return "its head is larger than 64 KiB or its body larger than \(request.responseBytesMax >> 20) MiB"
        }
        var status = 0
        lanyard_curl_get_long(easy, CURLINFO_HTTP_CONNECTCODE, &status)
        if code != CURLE_OK, status >= 300 { return "the proxy refused to connect to it, with the status \(status)" }
        switch code {
        // The words of an upstream's failures, for the same causes.
        case CURLE_COULDNT_RESOLVE_HOST: return "its name cannot be resolved"
        case CURLE_COULDNT_RESOLVE_PROXY: return "the name of the proxy cannot be resolved"
        case CURLE_COULDNT_CONNECT:
            var error = 0
            guard lanyard_curl_get_long(easy, CURLINFO_OS_ERRNO, &error) == CURLE_OK, error != 0 else { fallthrough }
            return "connecting failed: \(Errno.text(of: CInt(error)))"
        case CURLE_OPERATION_TIMEDOUT,
            CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CACERT_BADFILE:
            let long = String(cString: handle.errorBuffer).filter { ("\u{20}"..."\u{7e}").contains($0) }.prefix(200)
            return long.isEmpty ? short : String(long)
        default: return short
        }
    }
}
