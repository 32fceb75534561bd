// What public/assets/early.js asked for before this script was there.
interface Early {
  at: number; // by the browser's clock, in ms
  answers: Map<string, Promise<Response | undefined>>; // by address; undefined: there is none
}

declare global {
  interface Window {
    early?: Early;
  }
}

const early: Early | undefined = globalThis.window?.early;
if (early === undefined && globalThis.window !== undefined) window.early = { at: 0, answers: new Map() }; // it comes too late

// earlyAt is when the first questions were asked, by the browser's clock, in ms.
export const earlyAt = early?.at ?? Date.now();

// takeEarly returns the answer to a question that was asked early, the first time.
export function takeEarly(address: string): Promise<Response | undefined> | undefined {
  const answer = early?.answers.get(address);
  early?.answers.delete(address);
  return answer;
}
