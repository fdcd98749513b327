import LanyardFoundations
import LanyardSessionInterface

/// What a response to a call about an account means (app-services-accounts.md 4.8). Pure.
///
/// No such response ends a session: a dead one is recognised by the refresh call alone (app-services.md 3.4).
enum AppServicesAccountResult {
    /// The result of a call, or its error.
    static func read(
        _ outcome: Result<CurlResponse, CurlError>, of call: AccountCall, _ exchange: AppServicesAccountCall,
        token: Secret?, appID: String
    ) -> Result<Secret, IdentityError> {
        let subject = Subject(
            label: exchange.label, changesState: exchange.changesState, isLink: false,
            secrets: AppServicesAccountCall.secrets(in: call) + (token.map { [$0] } ?? []), appID: appID)
        return checked(outcome, subject).flatMap { response in
            guard let text = response.body.withBytes({ result(of: call, $0) }) else {
                return .failure(malformed(subject, response.status, "it is not the JSON that belongs to the call"))
            }
            return .success(text)
        }
    }

    /// The new access token of a link, or its error.
    ///
    /// - Parameter secrets: what the request carried.
    static func readLink(
        _ outcome: Result<CurlResponse, CurlError>, secrets: [Secret], appID: String
    ) -> Result<Grant, IdentityError> {
        let subject = Subject(
            label: "the link request", changesState: true, isLink: true, secrets: secrets, appID: appID)
        return checked(outcome, subject).flatMap { response in
            AppServicesGrant.make(.link, response, secrets: secrets).mapError { error in
                var error = error
                // The service has made the link, although its token cannot be used.
                error.verdict = .unknownOutcome
                return error
            }
        }
    }

    /// The call, as far as its errors depend on it.
    private struct Subject {
        let label: String
        let changesState: Bool
        let isLink: Bool
        let secrets: [Secret]
        let appID: String
    }

    private static func checked(
        _ outcome: Result<CurlResponse, CurlError>, _ subject: Subject
    ) -> Result<CurlResponse, IdentityError> {
        switch outcome {
        case .failure(let failure): .failure(error(failure, subject))
        case .success(let response) where 200..<300 ~= response.status: .success(response)
        case .success(let response): .failure(error(response, subject))
        }
    }

    // MARK: Errors

    /// The error of a missing response. A call that was sent may have been carried out.
    private static func error(_ failure: CurlError, _ subject: Subject) -> IdentityError {
        var error = failure.identityError(of: subject.label)
        if failure.wasRequestSent, subject.changesState { error.verdict = .unknownOutcome }
        return error
    }

    private static func malformed(_ subject: Subject, _ status: Int, _ reason: String) -> IdentityError {
        IdentityError(
            subject.changesState ? .unknownOutcome : .transient(retryAfter: nil), status: status,
            message: "the identity service's response to \(subject.label) cannot be used: \(reason)")
    }

    private static func error(_ response: CurlResponse, _ subject: Subject) -> IdentityError {
        let decoded = response.isJSON ? response.body.withBytes { TokenReader.readUsable($0).response } : nil
        let verdict = verdict(response, decoded, subject)
        let code = decoded?.errorCode(without: SecretEcho(of: subject.secrets, and: response))
        var message =
            "the identity service responded with \(response.status)\(code.map { " \($0)" } ?? "") to \(subject.label)"
        switch verdict {
        case .unknownApp: message += ": it knows no app \(subject.appID); check app_id and base_url"
        case .gone: message += ": it has ended; check base_url"
        case .transient where 300..<400 ~= response.status:
            message += ", a redirect that is not followed; check base_url"
        default:
            if let reason = AppServicesExplanation.text(response.status, code, isLink: subject.isLink) {
                message += ": \(reason)"
            }
        }
        var error = IdentityError(verdict, status: response.status, code: code, message: message)
        error.isServiceError = decoded?.hasError ?? false
        if error.isServiceError {
            error.serviceText = response.body.withBytes { ServiceErrorText.read($0, without: subject.secrets) }
        }
        return error
    }

    /// The rules of refresh-outcomes.md 10, for a call that is not repeated by itself.
    private static func verdict(
        _ response: CurlResponse, _ decoded: TokenResponse?, _ subject: Subject
    ) -> IdentityError.Verdict {
        let hasError = decoded?.hasError ?? false
        let isMaintenance = decoded?.errorCode == "MaintenanceInProgress"
        switch response.status {
        case 404 where decoded?.isUnknownApp ?? false: return .unknownApp
        case 410: return .gone
        case 408, 425, 429: break
        case 400..<500 where hasError && !isMaintenance: return .callRefused
        // The hosted service refuses a second login with email and password by a 500 (app-services-accounts.md 4.3).
        case 500 where subject.isLink && hasError && !isMaintenance: return .callRefused
        // A gateway does not know the result of the call.
        case 500..<600 where subject.changesState && !hasError: return .unknownOutcome
        default: break
        }
        return .transient(retryAfter: response.retryAfter(now: .now))
    }

    // MARK: Results

    /// nil: the body is not what the call should bring.
    private static func result(of call: AccountCall, _ body: UnsafeRawBufferPointer) -> Secret? {
        switch call {
        case .profile: ProfileReader.withoutTokens(body)
        case .identities: ProfileReader.identities(body)
        case .apiKeys: APIKeyReader.list(body)
        case .apiKey: APIKeyReader.key(body, withValue: false)
        case .createAPIKey: APIKeyReader.key(body, withValue: true)
        case .enableAPIKey(let id): enabled(id, true)
        case .disableAPIKey(let id): enabled(id, false)
        case .function: functionResult(body)
        case .deleteAccount, .deleteAPIKey: text { $0.append("{}") }
        case .emailPassword(.register(let email, _)):
            text {
                $0.append("{\"email\":")
                JSONText.write(email, into: &$0)
                $0.append("}")
            }
        case .emailPassword: text { $0.append("{}") }
        }
    }

    private static func enabled(_ id: String, _ isEnabled: Bool) -> Secret {
        text {
            $0.append("{\"id\":")
            JSONText.write(id, into: &$0)
            $0.append(",\"disabled\":\(!isEnabled)}")
        }
    }

    /// One JSON text of any kind. A function without a result has an empty body.
    private static func functionResult(_ body: UnsafeRawBufferPointer) -> Secret? {
        guard body.count > 0 else { return text { $0.append("null") } }
        var reader = JSONReader(body, depthMax: 128)
        do throws(JSONError) {
            while try reader.next() != .end {}
        } catch {
            return nil
        }
        return Secret(copying: body)
    }

    private static func text(_ write: (inout SecretBuffer) -> Void) -> Secret {
        var buffer = SecretBuffer()
        write(&buffer)
        return buffer.seal()
    }
}
