/*
 * Breaks a rule of NetworkDirect, to see that the sanitizers find what the provider then does.
 *
 *     broken_rules LIBRARY overlapped    frees the OVERLAPPED of a request that is in flight
 *     broken_rules LIBRARY short         frees a registered buffer, to which the peer writes 64 octets
 *     broken_rules LIBRARY long          the same with many octets
 *     broken_rules LIBRARY leak          loses an object
 */
#include "habits.hpp"

namespace {

void frees_an_overlapped(Side &side)
{
    auto *overlapped = new OVERLAPPED();
    CHECK_STATUS(side.cq->Notify(ND_CQ_NOTIFY_ANY, overlapped), ND_PENDING);
    delete overlapped;
    CHECK_STATUS(side.cq->CancelOverlappedRequests(), ND_SUCCESS);
}

void frees_a_buffer(Side &from, Side &to, ULONG length)
{
    const ND2_SGE source = from.piece(0, length);
    const auto at = reinterpret_cast<UINT64>(to.memory);
    delete[] to.memory;
    to.memory = nullptr;
    CHECK_STATUS(from.qp->Write(nullptr, &source, 1, at, to.region->GetRemoteToken(), 0), ND_SUCCESS);
    CHECK_STATUS(from.next(), ND_SUCCESS);
    /* The Write is placed before the peer has seen the end of the connection. */
    OVERLAPPED ended = {}, ending = {};
    CHECK_STATUS(to.connector->NotifyDisconnect(&ended), ND_PENDING);
    CHECK_STATUS(finish(from.connector, from.connector->Disconnect(&ending), &ending), ND_SUCCESS);
    CHECK_STATUS(to.connector->GetOverlappedResult(&ended, TRUE), ND_SUCCESS);
}

void loses_an_object(IND2Adapter *adapter)
{
    IND2MemoryWindow *window = nullptr;
    CHECK_STATUS(adapter->CreateMemoryWindow(IID_IND2MemoryWindow, out(&window)), ND_SUCCESS);
}

} // namespace

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    const Library library(arguments[1]);
    const std::string rule = arguments[2];
    const sockaddr_in address = first_address(library);
    IND2Adapter *adapter = library.open(address);
    Listening listening(adapter, address);
    Side active(adapter), passive(adapter);
    listening.connect(active, passive);
    if (rule == "overlapped")
        frees_an_overlapped(active);
    else if (rule == "short")
        frees_a_buffer(active, passive, 64);
    else if (rule == "long")
        frees_a_buffer(active, passive, Side::OCTETS / 2);
    else if (rule == "leak")
        loses_an_object(adapter);
    else
        return 2;
    active.release();
    passive.release();
    listening.release();
    CHECK(adapter->Release() == 0);
    return 0;
}
